"""The priority of a process: which one the kernel runs first if several want the same core.

Linux may make each session of processes a group of its own, and then shares the cores among groups first
(autogroup, sched(7)). A niceness counts only inside its group, so the group has to be nice, too.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

LEAST = 19
_GROUP = Path("/proc/self/autogroup")
_PAUSE, _TRIES = 0.1, 20
"""The kernel takes one such change in 0.1 s, from all processes together."""


def give_way(by: int) -> None:
    """Lower the priority of this process, which leads a session of its own, and of what it has started:
    ``by`` so many steps of nice(2)."""
    os.setpriority(os.PRIO_PGRP, 0, min(LEAST, os.getpriority(os.PRIO_PROCESS, 0) + by))
    with suppress(OSError):  # another kernel, or none that makes groups
        found = re.search(r"nice (-?\d+)", _GROUP.read_text())
        if found is not None:
            _set_group(min(LEAST, int(found[1]) + by))


def _set_group(nice: int) -> None:
    for _ in range(_TRIES):
        try:
            _GROUP.write_text(str(nice))
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return
