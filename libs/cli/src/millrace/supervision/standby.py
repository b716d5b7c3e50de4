"""Processes that have started Spark and wait to take the place of a service's process that has ended. So the
service need not start a JVM then (``MILLRACE_STANDBY``, decision 0077).

Such a process waits under the name of its service with ``.next``; a FIFO tells it that its turn has come.
The FIFO's name depends on the settings that the process was started with: it is of no use for others.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

from millrace import processes
from millrace.processes import Program, RunFolder

SECONDS = 300.0
"""How long a process may take from its start until it waits."""
SETTINGS = ("MILLRACE_", "JAVA_", "SPARK_", "PYSPARK_")
"""Prefixes of the environment variables that a service reads."""


def name_of(service: str) -> str:
    """The name under which the service's next process waits."""
    return f"{service}.next"


def waits(place: RunFolder, service: str) -> bool:
    """Whether a process stands by, ready or not yet."""
    return processes.running(place, name_of(service)) is not None


def keep(place: RunFolder, program: Program) -> bool:
    """Has a process with these settings stand by; returns whether one was started for that."""
    turn = _turn(place, program)
    if waits(place, program.name) and turn.exists():
        return False
    end(place, program.name)
    turn.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(turn)
    command = (*program.command, "--stand-by", str(turn))
    waiting = Program(name_of(program.name), command, program.environment)
    processes.start(place, waiting, place.log_file(program.name))
    return True


def take_over(place: RunFolder, program: Program) -> bool:
    """Turns the process that stands by into the service's; False if none has these settings."""
    turn = _turn(place, program)
    if not turn.exists():
        end(place, program.name)
        return False
    process = processes.rename(place, name_of(program.name), program.name)
    if process is None:
        return False
    told = _tell(turn, process)
    _remove_turns(place, program.name)
    if not told:
        processes.kill(place, program.name)
    return told


def end(place: RunFolder, service: str) -> None:
    """Ends the process that stands by, if there is one."""
    if waits(place, service):
        processes.kill(place, name_of(service))
    _remove_turns(place, service)


def _tell(turn: Path, process: psutil.Process) -> bool:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and not processes.ended(process):
        try:
            handle = os.open(turn, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            time.sleep(0.02)  # it is not waiting yet
            continue
        try:
            os.write(handle, b"1")
        finally:
            os.close(handle)
        return True
    return False


def _turn(place: RunFolder, program: Program) -> Path:
    given = os.environ | dict(program.environment)
    read = {name: value for name, value in sorted(given.items()) if name.startswith(SETTINGS)}
    number = hashlib.sha256(json.dumps(read).encode()).hexdigest()[:12]
    return place.pid_file(program.name).with_name(f"{program.name}.{number}.turn")


def _remove_turns(place: RunFolder, service: str) -> None:
    for turn in place.pid_file(service).parent.glob(f"{service}.*.turn"):
        with suppress(FileNotFoundError):
            turn.unlink()
