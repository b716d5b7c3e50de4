"""Separate processes: each has a session of its own and a pid file, and is stopped only by its own pid."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from millrace_core.errors import ErrorCode, MillraceError

LOG_BYTES = 16 * 1024 * 1024
"""A log file that grows longer than this is started afresh."""
_SAME_START = 0.05  # seconds by which two readings of one process's start may differ
_children: dict[int, subprocess.Popen[bytes]] = {}  # started by this very process, which must reap them


@dataclass(frozen=True)
class Program:
    """What to run: a name (of its pid and log file), the command, its environment."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one stack's programs: pid files in ``run/``, logs in ``log/``, below ``data_dir``."""

    data_dir: Path

    def pid_file(self, name: str) -> Path:
        """The file that holds pid and start time of the program while it runs."""
        return self.data_dir / "run" / f"{name}.json"

    def log_file(self, name: str) -> Path:
        """The file that takes the program's standard output and error."""
        return self.data_dir / "log" / f"{name}.log"


def free_port() -> int:
    """A loopback TCP port that nothing listens on at this moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """As many different ports as asked for."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def port_taken(host: str, port: int) -> bool:
    """Whether something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _noted(place: RunFolder, name: str) -> dict[str, Any] | None:
    """What the pid file says; None if it does not exist, or is incomplete."""
    try:
        noted: dict[str, Any] = json.loads(place.pid_file(name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return noted


def running(place: RunFolder, name: str) -> psutil.Process | None:
    """The program's process, if the pid file names a process that is alive and is still the same one."""
    noted = _noted(place, name)
    if noted is None:
        return None
    try:
        process = psutil.Process(noted["pid"])
        same = abs(process.create_time() - noted["started"]) < _SAME_START
    except psutil.NoSuchProcess:
        return None
    return process if same and not ended(process) else None


def ended(process: psutil.Process) -> bool:
    """Whether it no longer runs. A zombie has ended: whoever must reap it may be slow, or gone."""
    if child := _children.get(process.pid):
        child.poll()
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _all_end(family: Sequence[psutil.Process], seconds: float) -> bool:
    """Waits until all have ended; False if some still run after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not all(map(ended, family)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def start(place: RunFolder, program: Program, log_file: Path | None = None) -> psutil.Process:
    """Starts the program unless it already runs. The pid file is never half written. ``log_file``: where the
    program writes its log, if not to the file of its own name."""
    pid_file, log_file = place.pid_file(program.name), log_file or place.log_file(program.name)
    for file in (pid_file, log_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place, program.name):
        if process := running(place, program.name):
            return process
        return _spawn(pid_file, log_file, place, program)


def rename(place: RunFolder, name: str, new: str) -> psutil.Process | None:
    """Gives the program that runs as ``name`` the new name, unless another program runs under that. Returns
    its process, or None if nothing was renamed."""
    with _alone(place, new):
        process, noted = running(place, name), _noted(place, name)
        if process is None or noted is None or running(place, new) is not None:
            return None
        _note(place.pid_file(new), noted)
        place.pid_file(name).unlink(missing_ok=True)
        return process


@contextmanager
def _alone(place: RunFolder, name: str) -> Iterator[None]:
    """Makes sure that nobody else starts the program meanwhile: a supervisor may be about to."""
    with place.pid_file(name).with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _spawn(pid_file: Path, log_file: Path, place: RunFolder, program: Program) -> psutil.Process:
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
    _note(pid_file, {"pid": child.pid, "started": process.create_time()})
    return process


def _note(pid_file: Path, noted: Mapping[str, Any]) -> None:
    draft = pid_file.with_suffix(".new")
    draft.write_text(json.dumps(noted))
    draft.replace(pid_file)


def _mean_to_end(place: RunFolder, name: str) -> None:
    """Say that the program is about to end on purpose, so that nobody takes it for a crash."""
    if noted := _noted(place, name):
        _note(place.pid_file(name), noted | {"ending": True})


def crashed(place: RunFolder, name: str) -> bool:
    """Whether the program has ended although nobody ended it on purpose."""
    noted = _noted(place, name)
    if noted is None or running(place, name) is not None:
        return False
    # whoever ends a program notes that first; the note read above may be older than that, so read it again
    return _noted(place, name) == noted and not noted.get("ending")


def last_words(place: RunFolder, name: str) -> str:
    """How an ended program ended: its exit status, if this process started it, and the last
    line of its log."""
    child = _children.get((_noted(place, name) or {}).get("pid", 0))
    code = child.poll() if child else None
    how = "ended"
    if code is not None:
        how = f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    said = tail(place.log_file(name), 1).strip()[-200:]
    return f"{how}: {said}" if said else how


def _family(process: psutil.Process) -> list[psutil.Process]:
    """The process and all its descendants (a Spark driver has a Java and Python workers)."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(family: Sequence[psutil.Process]) -> None:
    """Sends SIGKILL to those that still run; psutil refuses a pid that by now belongs to another process."""
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _all_end(family, 10)


def stop(place: RunFolder, name: str, patience: float = 30, alone: bool = False) -> bool:
    """Sends SIGTERM, and SIGKILL after ``patience`` seconds. What the program started is ended too, unless it
    is to end ``alone``. False if it did not run. When this returns, the program has ended."""
    process = running(place, name)
    if process:
        _mean_to_end(place, name)
        family = [process] if alone else _family(process)
        with suppress(psutil.NoSuchProcess):
            process.terminate()
        _all_end([process], patience)
        _kill([one for one in family if not ended(one)])
    place.pid_file(name).unlink(missing_ok=True)
    return process is not None


def kill(place: RunFolder, name: str) -> bool:
    """Sends SIGKILL at once, to the program and all that it started: a crash. False if it did not run."""
    process = running(place, name)
    if process:
        _mean_to_end(place, name)
        _kill(_family(process))
    place.pid_file(name).unlink(missing_ok=True)
    return process is not None


def rotate(path: Path, most: int = LOG_BYTES) -> bool:
    """Starts a log file afresh if it has grown beyond ``most`` bytes; returns whether it had. The old content
    is kept as ``<name>.1``, replacing what that held. Writers append to the file that they hold open, so the
    few lines that they write during the copy may be lost."""
    try:
        if path.stat().st_size <= most:
            return False
    except FileNotFoundError:
        return False
    copy = path.with_name(f"{path.name}.1")
    draft = path.with_name(f"{path.name}.new")
    shutil.copyfile(path, draft)
    draft.replace(copy)
    os.truncate(path, 0)
    return True


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log file; '' if there is no such file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 64_000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def wait_ready(place: RunFolder, name: str, ready: Callable[[], bool], seconds: float) -> None:
    """Waits until ``ready()``. Raises ``MillraceError``: UNAVAILABLE, with the end of the log, if the program
    ends before that; TIMEOUT if it takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    while not ready():
        log = place.log_file(name)
        if running(place, name) is None:
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"{name} exited while starting; the end of {log}:\n{tail(log)}"
            )
        if time.monotonic() > deadline:
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"{name} was not ready within {seconds:g} s; the end of {log}:\n{tail(log)}",
            )
        time.sleep(0.1)
