"""Where and when the figures were taken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from millrace.java import find_java
from millrace.settings import project_root

PACKAGES = ("pyspark", "polars", "pyarrow", "numpy", "deltalake", "confluent-kafka", "sqlglot")


def about() -> dict[str, Any]:
    """The keys of :data:`bench.goals.ABOUT`."""
    return {
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
        },
        "versions": {"python": platform.python_version(), "java": _java(), "kafka": _kafka()}
        | {name: version(name) for name in PACKAGES},
        "commit": _commit(),
        "command": " ".join(["python -m bench", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _java() -> str:
    program = find_java().home / "bin" / "java"
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=True)
    return told.stderr.splitlines()[0]


def _kafka() -> str:
    jars = sorted((project_root() / ".jars" / "broker").glob("kafka_2.13-*.jar"))
    return jars[0].stem.partition("-")[2] if jars else "unknown"


def _commit() -> str:
    """The commit, ``-dirty`` if files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(
        command, cwd=project_root(), capture_output=True, text=True, check=True
    ).stdout.strip()
