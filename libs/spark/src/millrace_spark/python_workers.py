"""Spark's daemon of Python workers, without archives among the places that modules are imported from.

Spark puts its own archives before the installed packages. Modules in archives are compiled anew in each
daemon, and the archives' tables of contents are read anew for each task, which took an eighth of a worker's
time. So a service names a module of its own in ``spark.python.daemon.module``; Spark's own daemon still does
the work. The workers are forked with everything that was imported before the daemon began.
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
