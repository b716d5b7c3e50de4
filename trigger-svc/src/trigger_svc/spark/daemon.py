"""Spark's daemon for the Python workers that evaluate large batches."""

from __future__ import annotations

from millrace_spark.python_workers import serve_workers

if __name__ == "__main__":
    serve_workers()
