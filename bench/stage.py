"""A stack of the bench's own: fresh data, free ports; parts of it can be held and let go."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from millrace import processes
from millrace.settings import StackSettings, project_root
from millrace.sql_client import Rest
from millrace.stack import NAMES, Stack
from millrace_wal import KafkaLog

DB = "bench"
CHILDREN_A_STATEMENT = 100


class BenchError(Exception):
    """A measure is not valid: results are wrong or missing, or something did not happen in time."""


def say(line: str) -> None:
    """Progress, to where it does not mix with the figures."""
    print(f"  {line}", file=sys.stderr, flush=True)


def wait(done: Callable[[], bool], seconds: float, what: str, pause: float = 0.1) -> None:
    """:raises BenchError: if ``done()`` is not true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not happen within {seconds:g} s")
        time.sleep(pause)


def family(process: psutil.Process) -> list[psutil.Process]:
    """The process and all below it, none if it has ended."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def hold(process: psutil.Process) -> None:
    """SIGSTOP to the process and all below it: it costs nothing until it is let go."""
    for one in family(process):
        one.suspend()
    for one in family(process):  # what was started in between
        one.suspend()


def let_go(process: psutil.Process) -> None:
    """SIGCONT, what is below first."""
    for one in reversed(family(process)):
        one.resume()


@dataclass
class Stage:
    """A running stack with a SQL client and a reader of its topics."""

    stack: Stack
    rest: Rest
    log: KafkaLog
    start_seconds: float

    @property
    def broker(self) -> str:
        return self.stack.settings.broker

    def sql(self, *statements: str) -> None:
        """Runs statements, in order."""
        for statement in statements:
            self.rest.execute(statement, DB if "CREATE DATABASE" not in statement else None)

    def tables(self, count: int, stable: str) -> None:
        """Child tables d0, d1, … of a super table with the one tag ``k``."""
        for begin in range(0, count, CHILDREN_A_STATEMENT):
            numbers = range(begin, min(begin + CHILDREN_A_STATEMENT, count))
            made = " ".join(f"{DB}.d{number} USING {DB}.{stable} TAGS ({number})" for number in numbers)
            self.sql(f"CREATE TABLE {made}")

    def scalar(self, query: str) -> int:
        """The one figure that a query gives; 0 if it gives no row."""
        rows = self.rest.execute(query, DB).rows
        return int(rows[0][0]) if rows else 0

    def running(self, stream: str, seconds: float = 60) -> None:
        """Waits until a stream is Running."""

        def is_running() -> bool:
            answer = self.rest.execute(f"SHOW {DB}.STREAMS")
            names = [name for name, _, _ in answer.columns]
            states = {row[names.index("stream_name")]: row[names.index("status")] for row in answer.rows}
            return states.get(stream) == "Running"

        wait(is_running, seconds, f"stream {stream} Running")

    def process(self, name: str) -> psutil.Process:
        """The process of a part of the stack."""
        found = processes.running(self.stack.place, name)
        if found is None:
            raise BenchError(f"{name} is not running; its log is {self.stack.place.log_file(name)}")
        return found

    def processes(self) -> list[psutil.Process]:
        """Every process of the stack."""
        return [one for name in NAMES for one in family(self.process(name))]

    def memory(self) -> int:
        """Resident bytes of the whole stack."""
        return sum(row.memory for row in self.stack.status())

    def restart(self, name: str, more: Mapping[str, str]) -> None:
        """A clean stop, and a start with more settings."""
        self.stack.stop(name)
        with environment(more):
            self.stack.start(name)


@contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """What is started meanwhile has these variables too."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def stage(name: str, statements: Sequence[str] = (), **settings: Any) -> Iterator[Stage]:
    """A fresh stack in which the statements have run; its data is removed in the end, unless the measure
    fails. ``settings``: of the stack, where they are others than those of tests."""
    root = project_root()
    folder = root / ".millrace" / "bench" / name
    shutil.rmtree(folder, ignore_errors=True)
    jars = Path(os.environ.get("MILLRACE_JARS_DIR", root / ".jars"))
    stack = Stack(replace(StackSettings.on_free_ports(folder, jars), **settings))
    failed = True
    try:
        say(f"{name}: starting a stack")
        began = time.monotonic()
        stack.up()
        seconds = time.monotonic() - began
        say(f"{name}: ready after {seconds:.1f} s")
        with (
            Rest(stack.settings.url("api-gateway"), timeout=300) as rest,
            KafkaLog(stack.settings.broker, "bench") as log,
        ):
            one = Stage(stack, rest, log, seconds)
            one.sql(f"CREATE DATABASE {DB}", *statements)
            yield one
        failed = False
    finally:
        for part in NAMES:  # what a failed measure left held could not end
            if held := processes.running(stack.place, part):
                let_go(held)
        stack.down()
        if failed:
            say(f"{name}: failed; its files are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
