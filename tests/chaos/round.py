"""One seed on a running stack: streams and rows of a database of its own, disturbances, the verdict."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos import evidence, schedule
from tests.chaos.changes import Change
from tests.chaos.disturb import Disturber, Say
from tests.chaos.due import TABLES, Due, places
from tests.chaos.found import verdict
from tests.chaos.judge import Verdict, judge_rows
from tests.chaos.load import KafkaWriter, SqlWriter, insist
from tests.chaos.notices import judge_notices
from tests.chaos.oracle import Result
from tests.chaos.plan import STREAMS
from tests.chaos.replay import Made
from tests.chaos.schedule import Disturbance
from tests.chaos.streams import Stream, source_table, statement
from tests.chaos.workload import METERS, TICKS, Step, closing, steps

from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_conformance.inbox import Inbox, Inboxes
from millrace_core.errors import MillraceError
from millrace_core.wire.topics import wal_topic
from millrace_wal import KafkaLog

SHOWN = 40
TOLD = 10.0
"""Seconds after which is said what is not right yet."""
SETTLED = 2.0
"""Seconds for which what is right must stay right."""


@dataclass
class Outcome:
    """A line of the table. ``recovery``: seconds from when the last row was acknowledged and all parts ran
    again until everything was right; None if it did not become right."""

    seed: int
    minutes: float
    kills: int = 0
    pauses: int = 0
    rows: int = 0
    expected: int = 0
    right: int = 0
    wrong: int = 0
    missing: int = 0
    allowed: int = 0
    faults: int = 0
    recovery: float | None = None
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.recovery is not None and not self.wrong and not self.missing and not self.faults

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@contextmanager
def receiving(name: str) -> Iterator[tuple[str, Inbox]]:
    """An address for notifications, served by a thread of its own, and what comes to it."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    opened: list[tuple[str, Inbox]] = []

    async def serve() -> None:
        async with Inboxes() as inboxes:
            opened.append(inboxes.open(name))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield opened[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


@dataclass
class Round:
    """One seed. ``keep``: the folder that takes what a failed seed leaves."""

    stack: Stack
    rest: Rest
    seed: int
    minutes: float
    patience: float
    keep: Path
    say: Say
    spare: Sequence[str] = ()
    report: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    before: dict[str, dict[int, int]] = field(default_factory=dict)
    after: dict[str, dict[int, int]] = field(default_factory=dict)
    up: bool = True
    logs: dict[str, list[Change]] = field(default_factory=dict)
    outputs: dict[str, list[Result]] = field(default_factory=dict)

    @property
    def db(self) -> str:
        return f"chaos{self.seed}"

    @property
    def seconds(self) -> float:
        return self.minutes * 60

    def run(self) -> Outcome:
        """Whatever is wrong is in the outcome and in the kept report; nothing of it is raised."""
        began = time.monotonic()
        outcome = Outcome(self.seed, self.minutes)
        planned = schedule.plan(self.seed, self.seconds, self.spare)
        self.report += [
            f"seed {self.seed}, {self.minutes:g} minutes, planned:",
            *schedule.lines(planned),
            "happened:",
        ]
        with receiving(self.db) as (address, inbox):
            try:
                self._prepare(address)
                written = self._load(planned, address, outcome)
                self._conclude(written, inbox, outcome)
            except MillraceError as error:
                self.faults.append(f"{error.code.name}: {error}")
            except KeyboardInterrupt:
                self._keep(inbox)
                raise
            self.faults += inbox.faults
            outcome.faults = len(self.faults)
            outcome.seconds = round(time.monotonic() - began, 1)
            if outcome.is_right:
                self._drop()
            else:
                self._keep(inbox)
        return outcome

    # ------------------------------------------------------------------ before and under load

    def _sql(self, text: str, what: str = "") -> None:
        if problem := insist(lambda: self.rest.execute(text)):
            self.faults.append(f"{what or text[:120]}: {problem}")

    def _prepare(self, address: str) -> None:
        self._sql(f"DROP DATABASE IF EXISTS {self.db}")
        self._sql(f"CREATE DATABASE {self.db} WAL_RETENTION_PERIOD -1")  # the oracle reads it all
        for table, children in (("meters", METERS), ("ticks", TICKS)):
            self._sql(
                f"CREATE STABLE {self.db}.{table} (ts TIMESTAMP, op BIGINT, v INT, s INT) TAGS (site INT)"
            )
            made = (
                f"{self.db}.{name} USING {self.db}.{table} TAGS ({site})" for name, site in children.items()
            )
            self._sql(f"CREATE TABLE {' '.join(made)}")
        for stream in STREAMS:
            if not stream.begins:
                self._sql(statement(stream, self.db, address))

    def _load(self, planned: Sequence[Disturbance], address: str, outcome: Outcome) -> list[Step]:
        """Writes all rows while the schedule runs; returns the steps that were acknowledged, once all parts
        run again."""
        given = steps(self.seed, self.seconds)
        began = time.monotonic()
        broker, url = self.stack.settings.broker, self.stack.settings.url("api-gateway")
        writers = [
            KafkaWriter([one for one in given if one.what == "produce"], began, broker, self.db),
            SqlWriter([one for one in given if one.what != "produce"], began, url, self.db),
        ]
        definer = threading.Thread(target=self._define, args=(began, address), daemon=True)
        disturber = Disturber(self.stack.place, planned, self._happened)
        for thread in (*writers, definer, disturber):
            thread.start()
        try:
            for thread in (*writers, definer):
                thread.join()
            last = KafkaWriter(closing(self.seed, given), time.monotonic(), broker, self.db)
            last.run()
            disturber.join()
        finally:
            disturber.stop()
        outcome.kills, outcome.pauses = disturber.kills, disturber.pauses
        for writer in (*writers, last):
            self.faults += writer.faults
        self._happened("all rows are acknowledged")
        self.up = self._wait(self.stack.is_up, "all parts run")
        self.report += [str(one) for one in self.stack.status()]
        return [step for writer in (*writers, last) for step in writer.acknowledged]

    def _define(self, began: float, address: str) -> None:
        """The streams that begin with the history of a table."""
        with Rest(self.stack.settings.url("api-gateway"), timeout=60) as rest:
            for stream in sorted(STREAMS, key=lambda one: one.begins):
                if not stream.begins:
                    continue
                time.sleep(max(0.0, began + stream.begins * self.seconds - time.monotonic()))
                steps: tuple[Callable[[], object], ...] = (
                    partial(self._note_ends, stream, self.before),
                    partial(rest.execute, statement(stream, self.db, address)),
                    partial(self._note_ends, stream, self.after),
                )
                for step in steps:
                    if problem := insist(step):
                        self.faults.append(f"CREATE STREAM {stream.name}: {problem}")

    def _note_ends(self, stream: Stream, made: dict[str, dict[int, int]]) -> None:
        with KafkaLog(self.stack.settings.broker, "chaos") as log:
            made[stream.name] = log.end_offsets(wal_topic(self.db, source_table(stream)))

    def _happened(self, line: str) -> None:
        self.report.append(line)
        self.say(line)

    def _wait(self, done: Callable[[], bool], what: str) -> bool:
        deadline = time.monotonic() + self.patience
        while not done():
            if time.monotonic() > deadline:
                self.faults.append(f"not within {self.patience:g} s: {what}")
                return False
            time.sleep(0.5)
        return True

    # ------------------------------------------------------------------ the verdict

    def _conclude(self, written: Sequence[Step], inbox: Inbox, outcome: Outcome) -> None:
        began = time.monotonic()
        for table in TABLES:
            self.logs[table] = evidence.changes_of(self.stack, self.db, table)
        outcome.rows = sum(one.row is not None for table in TABLES for one in self.logs[table])
        self.faults += not_in_the_log(written, [one for table in TABLES for one in self.logs[table]])
        due = Due(self.logs, self.before)
        total, right = self._until_right(due, inbox)
        if total.is_right:
            outcome.recovery = round(right - began, 1)
            for stream in STREAMS:
                if stream.exact:
                    total.add(self._asked(stream.name, lambda one=stream: self._verified(one)))  # type: ignore[misc]
        outcome.expected, outcome.right, outcome.allowed = total.expected, total.right, total.allowed
        outcome.wrong, outcome.missing = len(total.wrong), len(total.missing)
        self.faults += evidence.dead_letters(self.stack, self.db)
        self.report += ["", *_most(total.wrong), *_most(total.missing)]

    def _until_right(self, due: Due, inbox: Inbox) -> tuple[Verdict, float]:
        """The whole verdict once all is right, or when nothing has moved for the given patience; and when it
        was given (monotonic): when all had become right, if it says so.

        To ask takes its time. So each part of the verdict is asked for until it is right, then the next; then
        all of them once more, and once all are right they must stay so."""
        moved, stood = time.monotonic(), evidence.moving(self.stack, self.db)
        told = moved
        asks = self._asks(due, inbox)
        at = 0
        while True:
            if at == len(asks):
                right = time.monotonic()
                if together(ask() for ask in asks).is_right:
                    time.sleep(SETTLED)
                    return together(ask() for ask in asks), right
                at = 0
            one = asks[at]()
            if one.is_right:
                at += 1
                continue
            if time.monotonic() - told > TOLD:
                told = time.monotonic()
                self._happened(f"not right yet: {(one.missing + one.wrong)[0]}")
            stands = evidence.moving(self.stack, self.db)
            if stands != stood:
                moved, stood = time.monotonic(), stands
            if not self.up or time.monotonic() - moved > self.patience:
                return together(ask() for ask in asks), time.monotonic()
            time.sleep(0.5)

    def _asks(self, due: Due, inbox: Inbox) -> Sequence[Callable[[], Verdict]]:
        """What gives the verdict of each table, then of each stream: its results, its notifications."""
        asks = [partial(self._asked, table, partial(self._table, table, due)) for table in TABLES]
        for stream in STREAMS:
            asks.append(partial(self._asked, stream.name, partial(self._results, stream, due)))
            if stream.notify:
                notices = partial(self._notices, stream, due, inbox)
                asks.append(partial(self._asked, stream.name, notices))
        return asks

    def _table(self, table: str, due: Due) -> Verdict:
        return judge_rows(table, due.stored[table], evidence.rows_of_table(self.rest, self.db, table))

    def _expected(self, stream: Stream, due: Due) -> list[Result]:
        table = source_table(stream)
        if stream.nested:
            self.logs[table] = evidence.changes_of(self.stack, self.db, table)
        return due.of(stream, self.logs[table])

    def _notices(self, stream: Stream, due: Due, inbox: Inbox) -> Verdict:
        name = stream.full_name(self.db)
        events = [event for event in inbox.events if event["streamName"] == name]
        return judge_notices(stream, self._expected(stream, due), events)

    def _results(self, stream: Stream, due: Due) -> Verdict:
        expected = self._expected(stream, due)
        found = self.outputs[stream.output] = evidence.results_of(self.rest, stream, self.db)
        own = self.logs[source_table(stream)]
        return verdict(stream, expected, own, found, self._made(stream, own))

    def _verified(self, stream: Stream) -> Verdict:
        """The product's own word on it: of a stream whose results follow its rows it has to find nothing."""
        said = evidence.verified(self.rest, stream, self.db)
        return Verdict(expected=1, right=int(not said), wrong=said)

    def _made(self, stream: Stream, own: Sequence[Change]) -> dict[str, Made]:
        ends = [places(ends.get(stream.name, {}), own) for ends in (self.before, self.after)]
        return {child: Made(ends[0][child], ends[1][child]) for child in ends[0]} if stream.begins else {}

    def _asked(self, what: str, ask: Callable[[], Verdict]) -> Verdict:
        try:
            return ask()
        except MillraceError as error:
            return Verdict(missing=[f"{what}: {error.code.name}: {error}"])

    # ------------------------------------------------------------------ in the end

    def _drop(self) -> None:
        if problem := insist(lambda: self.rest.execute(f"DROP DATABASE {self.db}"), self.patience):
            self.say(f"DROP DATABASE {self.db}: {problem}")

    def _keep(self, inbox: Inbox) -> None:
        self.report += ["", *self.faults, "", *evidence.state_of(self.stack, self.rest, self.db)]
        evidence.keep(self.keep, self.stack, self.report, self.logs, self.outputs, inbox.events, self.db)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict of several."""
    total = Verdict()
    for one in verdicts:
        total.add(one)
    return total


def not_in_the_log(written: Iterable[Step], log: Iterable[Change]) -> list[str]:
    """What was acknowledged and is not there."""
    versions, deletes = set(), set()
    for one in log:
        if one.row is None:
            deletes.add((one.child, one.first, one.last))
        else:
            versions.add((one.child, one.first, one.row.get("op")))
    lost = []
    for step in written:
        if step.what == "delete" and (step.child, step.first, step.last) not in deletes:
            lost.append(f"a delete of {step.child} was acknowledged, and is not in the log: {step}")
        lost += [
            f"row {row['op']} of {step.child} was acknowledged, and is not in the log"
            for row in step.rows
            if (step.child, row["ts"], row["op"]) not in versions
        ]
    return lost


def _most(lines: Sequence[str]) -> list[str]:
    more = [f"… {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [*lines[:SHOWN], *more]
