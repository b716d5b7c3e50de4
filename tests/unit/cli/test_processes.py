"""Processes: started apart, known by pid and start time, stopped with what they started, and nothing else."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from millrace import processes
from millrace.processes import Program, RunFolder
from millrace_core.errors import ErrorCode, MillraceError

# Starts a child that would outlive it, tells its pid, and waits.
_PARENT = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
{handler}
print(child.pid, flush=True)
time.sleep(60)
"""
_POLITE = "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))"
_STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RunFolder]:
    yield RunFolder(tmp_path)
    processes.kill(RunFolder(tmp_path), "worker")


def _start(place: RunFolder, code: str) -> psutil.Process:
    return processes.start(place, Program("worker", (sys.executable, "-c", code), {"COLOUR": "blue"}))


def _child(place: RunFolder) -> psutil.Process:
    """The child of the running parent program, once it has told its pid."""
    _until(lambda: bool(processes.tail(place.log_file("worker"))))
    return psutil.Process(int(processes.tail(place.log_file("worker")).split()[0]))


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_starts_once_with_its_environment_and_log(place: RunFolder) -> None:
    code = "import os, time; print(os.environ['COLOUR'], flush=True); time.sleep(60)"
    first = _start(place, code)
    assert _start(place, code).pid == first.pid
    _until(lambda: processes.tail(place.log_file("worker")) == "blue")
    assert processes.running(place, "worker") == first
    assert psutil.Process().pid != first.pid


def test_stop_lets_it_end_and_takes_its_children_along(place: RunFolder) -> None:
    parent = _start(place, _PARENT.format(handler=_POLITE))
    child = _child(place)
    assert processes.stop(place, "worker")
    assert "bye" in processes.tail(place.log_file("worker"))
    assert processes.ended(parent)
    assert processes.ended(child)
    assert not processes.stop(place, "worker")


def test_stop_kills_what_does_not_end(place: RunFolder) -> None:
    parent = _start(place, _PARENT.format(handler=_STUBBORN))
    child = _child(place)
    assert processes.stop(place, "worker", patience=0.3)
    assert processes.ended(parent)
    assert processes.ended(child)


def test_kill_is_a_crash(place: RunFolder) -> None:
    parent = _start(place, _PARENT.format(handler=_POLITE))
    child = _child(place)
    assert processes.kill(place, "worker")
    assert "bye" not in processes.tail(place.log_file("worker"))
    assert processes.ended(parent)
    assert processes.ended(child)
    assert processes.running(place, "worker") is None


def test_a_pid_that_became_another_process_is_left_alone(place: RunFolder) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        try:
            file = place.pid_file("worker")
            file.parent.mkdir(parents=True)
            started = psutil.Process(stranger.pid).create_time()
            file.write_text(json.dumps({"pid": stranger.pid, "started": started - 100}))
            assert processes.running(place, "worker") is None
            assert not processes.stop(place, "worker")
            assert not processes.kill(place, "worker")
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_torn_pid_file_means_not_running(place: RunFolder) -> None:
    place.pid_file("worker").parent.mkdir(parents=True)
    place.pid_file("worker").write_text('{"pid": 1')
    assert processes.running(place, "worker") is None


def test_waiting_for_a_program_that_ended_shows_its_log(place: RunFolder) -> None:
    _start(place, "print('no such setting'); raise SystemExit(3)")
    with pytest.raises(MillraceError, match="worker exited while starting") as caught:
        processes.wait_ready(place, "worker", lambda: False, 30)
    assert "no such setting" in caught.value.message
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_waiting_ends(place: RunFolder) -> None:
    _start(place, "import time; time.sleep(60)")
    with pytest.raises(MillraceError, match=r"not ready within 0\.2 s") as caught:
        processes.wait_ready(place, "worker", lambda: False, 0.2)
    assert caught.value.code is ErrorCode.TIMEOUT
    answers = iter([False, True])
    processes.wait_ready(place, "worker", lambda: next(answers), 10)


def test_ports_free_and_taken() -> None:
    port = processes.free_port()
    assert not processes.port_taken("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert processes.port_taken("127.0.0.1", port)


def test_tail_of_a_long_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert processes.tail(log) == ""
    log.write_text("".join(f"line {number}\n" for number in range(50_000)))
    assert processes.tail(log, 2) == "line 49998\nline 49999"


def test_a_long_log_begins_anew_and_keeps_one_before(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    assert not processes.rotate(path, 10)
    with path.open("ab") as writer:
        writer.write(b"first lines\n")
        writer.flush()
        assert processes.rotate(path, 10)
        writer.write(b"more\n")
        writer.flush()
        assert not processes.rotate(path, 10)
        writer.write(b"and more\n")
        writer.flush()
        assert processes.rotate(path, 10)
    assert path.read_bytes() == b""
    assert (tmp_path / "service.log.1").read_bytes() == b"more\nand more\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["service.log", "service.log.1"]


def test_one_that_is_ended_while_it_is_looked_for_has_not_crashed(
    place: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine: what the pid file said was read before the end was meant."""
    look = processes.running

    def ended_first(at: RunFolder, name: str) -> psutil.Process | None:
        monkeypatch.setattr(processes, "running", look)
        assert processes.kill(at, name)
        return look(at, name)

    _start(place, "import time; time.sleep(60)")
    monkeypatch.setattr(processes, "running", ended_first)
    assert not processes.crashed(place, "worker")
    (process := _start(place, "import time; time.sleep(60)")).kill()
    _until(lambda: processes.ended(process))
    assert processes.crashed(place, "worker")
