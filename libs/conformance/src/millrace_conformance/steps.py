"""Plays one step of a case against a running stack."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import KafkaException

from millrace_conformance import case as model
from millrace_conformance import notices, values
from millrace_conformance.case import Case, Login, Step
from millrace_conformance.gateway import Broken, Gateway, Refused
from millrace_conformance.inbox import Inbox
from millrace_conformance.producer import ToProduce, message
from millrace_conformance.values import Answer

RUNNING_SECONDS = 60.0
RUNNING = {"tdengine-legacy": "ready"}
"""What a dialect calls the state of a running stream, if not Running."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0
"""Seconds between two looks. Eight cases at a time keep both cores busy, so each look delays them all."""
SETTLE_SECONDS = 2.0  # how long after the last expected event one too many may still come


class Failed(Exception):
    """A step failed: what was expected, and what came."""

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected {expected}, got {came}")
        self.expected, self.came = expected, came


class Outside(Protocol):
    """What a case needs besides SQL and its WebSocket address: crashes of services, and a producer."""

    async def restart(self, service: str) -> None:
        """kill -9 and a start; returns once the service is ready again."""

    async def produce(self, what: ToProduce) -> None:
        """Writes one message to Kafka."""


@dataclass
class Play:
    """A case that is being played, its database named ``db``."""

    case: Case
    db: str
    gateway: Gateway
    inbox: Inbox
    outside: Outside
    bindings: notices.Bindings = field(default_factory=dict)
    restarted: bool = False
    """Whether a service was killed: from then on events may come again."""

    async def sql(self, text: str, login: Login | None = None) -> Answer:
        """Runs a statement in the case's time zone and dialect; without a login, as root."""
        return await self.gateway.execute(text, self.case.timezone, self.case.dialect, login)


async def play_step(play: Play, step: Step) -> None:
    """Plays one step. :raises Failed: if what came is not what was expected."""
    match step:
        case model.Sql():
            for text in step.statements:
                await _must_succeed(play, text, step.login)
        case model.Running():
            await _running(play, step)
        case model.Stays():
            await _stays(play, step)
        case model.Expect():
            await _until(step.within, lambda: _compare(play, step))
        case model.Refused():
            await _refused(play, step)
        case model.Sleep():
            await asyncio.sleep(step.seconds)
        case model.Notifications():
            await _notified(play, step)
        case model.Restart():
            play.restarted = True
            await _from_outside(f"{step.service} to run again", play.outside.restart(step.service))
        case model.Produce():
            await _produce(play, step)
        case _:
            raise TypeError(f"no way to play {type(step).__name__}")


Attempt = Callable[[], Awaitable[Failed | None]]


async def _until(seconds: float, attempt: Attempt) -> None:
    """Tries until there is nothing to complain about; raises the last complaint when time is up."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    pause = FIRST_PAUSE
    while (failed := await attempt()) is not None:
        left = deadline - clock()
        if left <= 0:
            raise failed
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)


async def _must_succeed(play: Play, text: str, login: Login | None = None) -> Answer:
    try:
        return await play.sql(text, login)
    except (Refused, Broken) as error:
        raise Failed(f"this to succeed: {text.strip()}", str(error)) from error


async def _from_outside(expected: str, work: Awaitable[None]) -> None:
    try:
        await work
    except (RuntimeError, KafkaException) as error:
        raise Failed(expected, str(error)) from error


# -- rows ------------------------------------------------------------------------------------------------


async def _compare(play: Play, step: model.Expect) -> Failed | None:
    expected = show_rows(step.rows)
    try:
        answer = await play.sql(step.sql, step.login)
    except (Refused, Broken) as error:
        return Failed(expected, f"an error: {error}")
    rows = values.localized(answer, play.case.timezone)
    if values.same_rows(step.rows, rows, step.ordered):
        return None
    return Failed(expected, show_rows(rows))


async def _stays(play: Play, step: model.Stays) -> None:
    await _until(step.within, lambda: _compare(play, step))
    clock = asyncio.get_running_loop().time
    began = clock()
    while (left := began + step.during - clock()) > 0:
        await asyncio.sleep(min(1.0, left))
        if failed := await _compare(play, step):
            seconds = clock() - began
            raise Failed(f"for {step.during:g} s {failed.expected}", f"after {seconds:.1f} s: {failed.came}")


def show_rows(rows: Sequence[Sequence[Any]], most: int = 30) -> str:
    """Rows as text for people, one line for each."""
    lines = [f"  {list(row)}" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  … and {len(rows) - most} more")
    return "\n".join([f"{len(rows)} row{'' if len(rows) == 1 else 's'}", *lines])


# -- the other steps -------------------------------------------------------------------------------------


async def _refused(play: Play, step: model.Refused) -> None:
    expected = f"this to be refused: {step.sql.strip()}"
    try:
        answer = await play.sql(step.sql, step.login)
    except Broken as error:
        raise Failed(expected, f"it was not refused, but failed: {error}") from error
    except Refused as error:
        if step.match is not None and not re.search(step.match, str(error)):
            raise Failed(f"a message that matches {step.match!r}", str(error)) from error
        return
    raise Failed(expected, f"it succeeded with {show_rows(answer.rows)}")


def column(answer: Answer, name: str, default: int = 0) -> int:
    """The index of the column of this name, ``default`` if there is none."""
    return answer.columns.index(name) if name in answer.columns else default


async def _running(play: Play, step: model.Running) -> None:
    running = RUNNING.get(play.case.dialect, "Running")
    expected = f"{', '.join(step.streams)} to be {running}"

    async def attempt() -> Failed | None:
        try:
            states = await _states(play, step.streams)
        except (Refused, Broken) as error:
            return Failed(expected, str(error))
        if any(str(state).lower() == "failed" for state in states.values()):
            raise Failed(expected, str(states))
        wrong = [name for name in step.streams if states.get(name) != running]
        return Failed(expected, str(states)) if wrong else None

    await _until(RUNNING_SECONDS, attempt)


async def _states(play: Play, streams: Sequence[str]) -> dict[str, Any]:
    """The state of each of the streams. A plain ``name`` is a stream of the case's database, ``db.name`` one
    of another. The older dialect has one list for all databases."""
    states: dict[str, Any] = {}
    owners = {name: name.rpartition(".")[0] or play.db for name in streams}
    for db in sorted(set(owners.values())):
        old = play.case.dialect == "tdengine-legacy"
        answer = await play.sql("SHOW STREAMS" if old else f"SHOW {db}.STREAMS")
        at_name, at_state = column(answer, "stream_name"), column(answer, "status", 1)
        found = {row[at_name]: row[at_state] for row in answer.rows}
        of_db = [name for name in streams if owners[name] == db]
        states |= {name: found.get(name.rpartition(".")[2]) for name in of_db}
    return states


async def _notified(play: Play, step: model.Notifications) -> None:
    expected = "\n".join(
        [f"{'exactly' if step.complete else 'at least'} {len(step.events)} events"]
        + [f"  {dict(event)}" for event in step.events]
    )

    def verdict() -> notices.Verdict:
        came = notices.without_repeats(play.inbox.events) if play.restarted else play.inbox.events
        return notices.judge(step.events, came, step.complete, play.bindings)

    def complaint(found: notices.Verdict) -> Failed:
        lines = [*found.problems, f"all {len(play.inbox.events)} events that arrived:"]
        return Failed(expected, "\n".join(lines + [f"  {event}" for event in play.inbox.events[:50]]))

    async def attempt() -> Failed | None:
        if play.inbox.faults:
            raise Failed("messages as the seed describes them", "\n".join(play.inbox.faults[:5]))
        found = verdict()
        if found.too_many:
            raise complaint(found)
        return complaint(found) if found.problems else None

    await _until(step.within, attempt)
    if step.complete:
        await asyncio.sleep(SETTLE_SECONDS)
        if failed := await attempt():
            raise failed
    play.bindings = verdict().bindings or play.bindings


async def _produce(play: Play, step: model.Produce) -> None:
    db, stable, name = await _place_of(play, step.table)
    expected = f"{len(step.rows)} rows of {step.table} to be written"
    await _from_outside(expected, play.outside.produce(message(db, stable, name, step.rows)))


async def _place_of(play: Play, table: str) -> tuple[str, str | None, str]:
    """Database, super table (None for a normal table) and name of a table. A device of IoTDB is a child table
    whose name is its path."""
    if play.case.dialect == "iotdb":
        name, condition = table, f"table_name = '{table}'"
    else:
        db, name = table.split(".")
        condition = f"db_name = '{db}' AND table_name = '{name}'"
    # the names come from the case, which may send any SQL anyway
    sql = f"SELECT db_name, stable_name FROM information_schema.ins_tables WHERE {condition}"  # noqa: S608
    try:
        answer = await play.gateway.execute(sql, play.case.timezone)
    except (Refused, Broken) as error:
        raise Failed(f"this to succeed: {sql}", str(error)) from error
    if len(answer.rows) != 1:
        raise Failed(f"one table {table}", show_rows(answer.rows))
    db, stable = answer.rows[0]
    return str(db), str(stable) if stable else None, name
