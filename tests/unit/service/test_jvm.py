"""The optimising compiler of a service's JVM stands back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace_service import compile_aside
from millrace_service.jvm import NICE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of threads")
def test_only_the_compilers_threads_stand_back(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as compiler, subprocess.Popen(["sleep", "60"]) as other:
        for process, name in ((compiler, "C2 CompilerThre"), (other, "C1 CompilerThre")):
            (tmp_path / str(process.pid)).mkdir()
            (tmp_path / str(process.pid) / "comm").write_text(f"{name}\n")
        (tmp_path / "1000000000").mkdir()  # it has ended meanwhile
        before = os.getpriority(os.PRIO_PROCESS, other.pid)
        assert compile_aside(1, tmp_path) == 1
        assert os.getpriority(os.PRIO_PROCESS, compiler.pid) == NICE
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == before
        compiler.kill()
        other.kill()


def test_without_threads_to_be_seen_nothing_is_done(tmp_path: Path) -> None:
    assert compile_aside(1, tmp_path / "absent") == 0
