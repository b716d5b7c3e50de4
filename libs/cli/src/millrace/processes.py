"""Separate processes: started in a session of their own, known by pid file, stopped by their own pid only."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from millrace_core.errors import ErrorCode, MillraceError

_SAME_START = 0.05  # seconds by which two readings of one process's start may differ
_children: dict[int, subprocess.Popen[bytes]] = {}  # what this very process started, to be reaped by it


@dataclass(frozen=True)
class Program:
    """What to run: a name (of its pid and log file), the command, its environment."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where programs of one stack live: pid files in ``run/``, logs in ``log/``, below ``data_dir``."""

    data_dir: Path

    def pid_file(self, name: str) -> Path:
        """The file that holds pid and start time of the program while it runs."""
        return self.data_dir / "run" / f"{name}.json"

    def log_file(self, name: str) -> Path:
        """The file that takes the program's standard output and error."""
        return self.data_dir / "log" / f"{name}.log"


def free_port() -> int:
    """A loopback TCP port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_taken(host: str, port: int) -> bool:
    """Whether something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def running(place: Place, name: str) -> psutil.Process | None:
    """The program's process, if the pid file names one that lives and is still the one it was."""
    try:
        noted = json.loads(place.pid_file(name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    try:
        process = psutil.Process(noted["pid"])
        same = abs(process.create_time() - noted["started"]) < _SAME_START
    except psutil.NoSuchProcess:
        return None
    return process if same and not ended(process) else None


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more. A zombie has ended: who must reap it may be slow, or not there."""
    if child := _children.get(process.pid):
        child.poll()
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _all_end(family: Sequence[psutil.Process], seconds: float) -> bool:
    """Waits until all have ended; False if some have not after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not all(map(ended, family)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def start(place: Place, program: Program) -> psutil.Process:
    """Starts the program unless it runs already. The pid file is whole or not there."""
    if process := running(place, program.name):
        return process
    pid_file, log_file = place.pid_file(program.name), place.log_file(program.name)
    for file in (pid_file, log_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        child = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=place.data_dir,
            env=os.environ | dict(program.environment),
            start_new_session=True,
        )
    _children[child.pid] = child
    process = psutil.Process(child.pid)
    draft = pid_file.with_suffix(".new")
    draft.write_text(json.dumps({"pid": child.pid, "started": process.create_time()}))
    draft.replace(pid_file)
    return process


def _family(process: psutil.Process) -> list[psutil.Process]:
    """The process and all below it (a Spark driver has a Java and Python workers)."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(family: Sequence[psutil.Process]) -> None:
    """SIGKILL to what is left; psutil refuses a pid that belongs to another process by now."""
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _all_end(family, 10)


def stop(place: Place, name: str, patience: float = 30) -> bool:
    """SIGTERM, and after ``patience`` seconds SIGKILL; what it started goes with it. False if it did not
    run. When this returns the program has ended."""
    process = running(place, name)
    if process:
        family = _family(process)
        with suppress(psutil.NoSuchProcess):
            process.terminate()
        _all_end([process], patience)
        _kill([one for one in family if not ended(one)])
    place.pid_file(name).unlink(missing_ok=True)
    return process is not None


def kill(place: Place, name: str) -> bool:
    """SIGKILL at once, to the program and all it started: a crash. False if it did not run."""
    process = running(place, name)
    if process:
        _kill(_family(process))
    place.pid_file(name).unlink(missing_ok=True)
    return process is not None


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log file, '' if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 64_000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def wait_ready(place: Place, name: str, ready: Callable[[], bool], seconds: float) -> None:
    """Waits until ``ready()``. ``MillraceError`` (UNAVAILABLE) with the end of the log if the program ends
    before, TIMEOUT if it takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    while not ready():
        log = place.log_file(name)
        if running(place, name) is None:
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"{name} ended while starting; the end of {log}:\n{tail(log)}"
            )
        if time.monotonic() > deadline:
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"{name} was not ready within {seconds:g} s; the end of {log}:\n{tail(log)}",
            )
        time.sleep(0.1)
