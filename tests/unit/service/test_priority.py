"""A process gives way with all that belongs to it, also where each session has a share of the cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUP = Path("/proc/self/autogroup")
BY = 3
PROGRAM = f"""
import os, subprocess, sys, threading
from millrace_service.priority import give_way
ends = threading.Event()
threading.Thread(target=ends.wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
give_way({BY})
threads = [os.getpriority(os.PRIO_PROCESS, int(t)) for t in os.listdir("/proc/self/task")]
try:
    group = open("/proc/self/autogroup").read().split()[-1]
except OSError:
    group = ""
print(*threads, os.getpriority(os.PRIO_PROCESS, child.pid), group, sep=",")
child.communicate(b"x")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_all_threads_and_children_and_the_session_give_way() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, start_new_session=True
    ).stdout.strip()
    *each, group = found.split(",")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert [int(nice) for nice in each] == [min(19, before + BY)] * 3
    assert group in ("", str(BY))
