"""What the peer's process tells of its micro-batches; processes that are held and let go."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from bench.plain_spark import Peer
from bench.stage import BenchError, hold, let_go

TICKS = "import time\nwhile True:\n    print('.', flush=True)\n    time.sleep(0.01)"


def test_micro_batches_are_added_up(tmp_path: Path) -> None:
    process = psutil.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        peer = Peer(process, tmp_path / "log")
        peer.take("a line of a library\n")
        peer.take('{"messages": 5, "began": "2026-01-01T00:00:01.500Z", "ms": 250, "partitions": 1}\n')
        peer.take('{"messages": 7, "began": "2026-01-01T00:00:02.000Z", "ms": 1000, "partitions": 1}\n')
        assert (peer.messages, peer.last_ms) == (12, 1_767_225_603_000)
        peer.reach(12, 0)
        with pytest.raises(BenchError, match="counting 13 messages"):
            peer.reach(13, 0.2)
        peer.take('{"messages": 1, "began": "2026-01-01T00:00:04.000Z", "ms": 9, "partitions": 200}\n')
        with pytest.raises(BenchError, match="in 200 partitions"):
            peer.reach(13, 0)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(BenchError, match="plain Spark ended"):
        peer.reach(13, 5)


def test_what_is_held_does_nothing() -> None:
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {TICKS!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b".\n"
            hold(process)
            (ticking,) = process.children()
            spent = ticking.cpu_times()
            time.sleep(0.3)
            assert ticking.status() == process.status() == psutil.STATUS_STOPPED
            assert ticking.cpu_times() == spent
            let_go(process)
            time.sleep(0.1)
            assert ticking.status() != psutil.STATUS_STOPPED
        finally:
            for one in [*process.children(recursive=True), process]:
                one.kill()
