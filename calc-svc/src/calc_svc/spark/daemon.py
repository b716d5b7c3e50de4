"""Spark's daemon for the Python workers that run analyses. It imports the algorithms once, so that starting a
worker takes a fork and not two seconds."""

from __future__ import annotations

import millrace_analytics.columns  # noqa: F401
from millrace_analytics.registry import algorithms
from millrace_spark.python_workers import serve_workers

if __name__ == "__main__":
    algorithms()
    serve_workers()
