"""The JVM of a service that has one: its optimising compiler works when nobody else does."""

from __future__ import annotations

import os
from pathlib import Path

COMPILER = "C2 CompilerThre"
"""How the kernel names its threads: the first 15 letters of their name."""
NICE = 10
"""About a tenth of a core beside a thread that computes."""


def compile_aside(pid: int, tasks: Path | None = None) -> int:
    """Lower the priority of the optimising compiler's threads in the JVM ``pid``; returns of how many.

    A young JVM compiles for minutes, on few cores at the cost of the rows that wait meanwhile. Threads that
    are started later inherit the priority. Only Linux tells of threads; elsewhere nothing is done.
    """
    found = 0
    for task in (tasks or Path(f"/proc/{pid}/task")).glob("*"):
        try:
            if (task / "comm").read_text().strip() == COMPILER:
                os.setpriority(os.PRIO_PROCESS, int(task.name), NICE)
                found += 1
        except OSError:
            continue  # it has just ended
    return found
