"""Spark's daemon of Python workers, without archives among the places that modules come from.

Spark puts its own archives before the installed packages. Modules of archives are compiled anew in each
daemon, and their tables of contents are read anew for each task, which took an eighth of a worker's time.
A service names a module of its own in ``spark.python.daemon.module``; Spark's own daemon does the work. What
is imported before it begins, its workers have from birth.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

ARCHIVES = (".zip", ".jar")


def without_archives(path: Sequence[str]) -> list[str]:
    """The entries of ``path`` that are not archives, in order."""
    return [place for place in path if not place.endswith(ARCHIVES)]


def serve_workers() -> None:
    """Make workers until Spark ends."""
    sys.path[:] = without_archives(sys.path)
    from pyspark.daemon import manager  # only a service with Spark has it

    manager()
