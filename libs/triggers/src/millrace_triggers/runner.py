"""One trigger's instance, and the calls that it answers. It runs in its own process, whose memory it limits.

A call of the class that takes too long ends the process by SIGALRM, which whoever started it notices. Memory
is limited by the address space: an instance that takes too much gets a MemoryError, or its process ends.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from millrace_triggers.frames import (
    OUT_OF_MEMORY,
    Begin,
    Begun,
    Ended,
    Fire,
    Fired,
    Reply,
    Request,
    Written,
    unpack,
)
from millrace_triggers.load import load_class
from millrace_triggers.tablet import Column, Columns, Tablet
from millrace_triggers.trigger import OPTIMISTIC, PESSIMISTIC

LONGEST_REASON = 500
"""The most characters kept of what a class has raised."""


class Runner:
    """Answers calls one after another."""

    def __init__(self) -> None:
        self._instance: object = None
        self._seconds = 0.0

    def answer(self, call: Request) -> Reply:
        match call:
            case Begin():
                return self._begin(call)
            case Fire():
                return self._fire(call)
            case _:
                return self._end()

    # -- life ------------------------------------------------------------------------------------------------

    def _begin(self, call: Begin) -> Begun:
        self._seconds = call.seconds
        _limit_memory(call.memory)
        step = "load"
        try:
            with self._timed():
                kind = load_class(Path(call.folder), Path(call.file) if call.file else None, call.class_name)
                self._instance = kind()
            for name, work in self._steps(call):
                step = name
                with self._timed():
                    work()
            step = "failure_strategy"
            with self._timed():
                strategy = self._ask(step, OPTIMISTIC)
            # a member of an enumeration is accepted as well
            strategy = str(getattr(strategy, "name", strategy)).upper()
            if strategy not in (OPTIMISTIC, PESSIMISTIC):
                return Begun("", step, f"{strategy} is neither {OPTIMISTIC} nor {PESSIMISTIC}")
            return Begun(strategy)
        except BaseException as error:
            return Begun("", step, reason(error))

    def _steps(self, call: Begin) -> Iterator[tuple[str, Callable[[], object]]]:
        attributes = dict(call.attributes)
        if not call.again:
            yield "validate", lambda: self._ask("validate", None, dict(attributes))
        yield "on_create", lambda: self._ask("on_create", None, dict(attributes))
        if call.again and call.stateful:
            state = None if call.state is None else msgspec.msgpack.decode(call.state)
            yield "restore", lambda: self._ask("restore", None, state)

    def _end(self) -> Ended:
        try:
            with self._timed():
                self._ask("on_drop", None)
        except BaseException as error:
            return Ended(reason(error))
        return Ended()

    def _ask(self, method: str, otherwise: Any, *given: Any) -> Any:
        """Call a method of the class if it has it, else return ``otherwise``."""
        found = getattr(self._instance, method, None)
        return otherwise if found is None else found(*given)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    # -- firing ----------------------------------------------------------------------------------------------

    def _fire(self, call: Fire) -> Fired:
        failures: dict[int, str] = {}
        writes: dict[int, list[Written]] = {}
        until, count = time.monotonic() + self._seconds / 2, 0
        for count, tablet in enumerate(tablets(call), 1):
            failed = self._fire_one(tablet)
            if failed:
                failures[count - 1] = failed
            elif tablet.writes:
                writes[count - 1] = [Written(one.path, one.times, one.values) for one in tablet.writes]
            if time.monotonic() > until:
                break
        state = None
        if call.state:
            try:
                with self._timed():
                    state = msgspec.msgpack.encode(self._ask("state", None))
            except BaseException as error:
                failures[count - 1] = f"state: {reason(error)}"
                writes.pop(count - 1, None)
        return Fired(count, failures, writes, state)

    def _fire_one(self, tablet: Tablet) -> str:
        """Why firing failed; empty if it did not."""
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            told = self._ask("fire", True, tablet)
            if tablet.writes:
                msgspec.convert(
                    [one.values for one in tablet.writes], list[list[bool | int | float | str | None]]
                )
        except MemoryError:
            # the class would go on hoarding memory: the next process begins with the state that was kept
            os._exit(OUT_OF_MEMORY)
        except BaseException as error:
            return reason(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return "fire returned False" if told is False or (told is not None and not told) else ""


def tablets(call: Fire) -> Iterator[Tablet]:
    """The tablets of a frame; their arrays are slices of the frame's arrays."""
    times = np.frombuffer(call.times, "<i8")
    lists: list[dict[str, Column]] = []
    for series in call.series:
        columns = {}
        for one in series:
            columns[one.measurement] = Column(
                one.type, *unpack(one.type, call.columns[one.column], len(times))
            )
        lists.append(columns)
    full = [all(bool(one.present.all()) for one in columns.values()) for columns in lists]
    for part in call.parts:
        rows, columns = slice(part.begin, part.end), lists[part.series]
        if not full[part.series]:
            columns = {name: one for name, one in columns.items() if one.present[rows].any()}
        yield Tablet(part.device, times[rows], Columns(columns, rows))


def reason(error: BaseException) -> str:
    """What was raised, in one line."""
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text}"[:LONGEST_REASON] if text else name


def _limit_memory(more: int) -> None:
    with open("/proc/self/statm") as told:  # noqa: PTH123
        pages = int(told.read().split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
