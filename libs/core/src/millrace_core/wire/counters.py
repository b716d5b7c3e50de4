"""All counters of a stream: one table says what each means, in which unit, and who counts it.

A service writes totals as :class:`~millrace_core.wire.status.Counters`, one record per task (a slot, or a
partition of what it reads). :func:`combined` puts the records of a stream together; the tables
``information_schema.ins_stream_counters`` and ``ins_streams`` show the result. Totals count from the creation
of the stream on, across restarts. ``docs/COUNTERS.md`` is this table for readers; a test keeps the two equal.

How exact they are: the counts of trigger-svc lie in its checkpoint together with what it evaluated, so each
row counts once, whatever crashes. The counts of the other services are written with what they did: what a
killed process does again is counted again, except for ``events_taken``, ``events_again`` and ``repeated``,
which remember their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from millrace_core.wire.status import Counters, encode, key

TRIGGER, CALC, NOTIFY = "trigger-svc", "calc-svc", "notify-svc"
RECALC, HISTORY = "calc-recalc", "calc-history"
"""The two loops of calc-svc that answer requests; each counts for itself."""

Unit = Literal["rows", "messages", "windows", "events", "requests", "batches", "ns"]
Sort = Literal["", "unused", "dropped", "notify_dropped"]


@dataclass(frozen=True, slots=True)
class Counter:
    """``services``: who counts it. ``sort``: ``unused`` is a cause why a row of the trigger table was not
    used; ``dropped``, why a result row was not stored; ``notify_dropped``, why an event did not reach an
    address. ``fold``: how the values of several tasks are combined; ``latest`` and ``earliest`` are moments,
    ns since the epoch."""

    name: str
    services: tuple[str, ...]
    unit: Unit
    meaning: str
    sort: Sort = ""
    fold: Literal["sum", "latest", "earliest"] = "sum"


COUNTERS: tuple[Counter, ...] = (
    # trigger-svc: rows
    Counter("rows_read", (TRIGGER,), "rows",
            "Rows of the trigger table that have reached the stream since it was created, before any "
            "condition; of rows with equal times in one message, only the last. Not counted for PERIOD, "
            "which reads no rows to trigger."),
    Counter("rows_used", (TRIGGER,), "rows",
            "Rows that the trigger has evaluated: they took part in windows or points in time, or their "
            "values excluded them (a state that is NULL, an event condition that is not met). History rows "
            "that the slot was given are included; rows that wait for the watermark are not included yet."),
    Counter("late_used", (TRIGGER,), "rows",
            "Those of rows_used that were late: they changed an open window or asked for a recalculation."),
    Counter("filtered", (TRIGGER,), "rows", "Rows that PRE_FILTER excludes.", "unused"),
    Counter("late", (TRIGGER,), "rows",
            "Late rows that were ignored, because of IGNORE_DISORDER or because the trigger does not handle "
            "late rows (COUNT_WINDOW, SLIDING).", "unused"),
    Counter("expired", (TRIGGER,), "rows", "Rows older than EXPIRED_TIME allows.", "unused"),
    Counter("out_of_range", (TRIGGER,), "rows",
            "Rows whose time is so far away that no window can be computed for them.", "unused"),
    Counter("null_columns", (TRIGGER,), "rows",
            "Rows that COUNT_WINDOW does not count because all of its columns are NULL.", "unused"),
    Counter("in_gap", (TRIGGER,), "rows",
            "Rows that fall between two windows because SLIDING is longer than INTERVAL.", "unused"),
    Counter("unknown_table", (TRIGGER,), "rows",
            "Rows of a child table that was dropped or whose tags are not known.", "unused"),
    Counter("undecodable", (TRIGGER,), "messages",
            "Messages that cannot be read as rows of the trigger table; calc-svc turns them into dead "
            "letters."),
    # trigger-svc: what comes of them
    Counter("empty_windows", (TRIGGER,), "windows",
            "Windows or points in time without rows that were left out because there were too many between "
            "two rows."),
    Counter("events_sent", (TRIGGER,), "events",
            "Trigger events that trigger-svc has sent for calculation or notification."),
    Counter("requests_sent", (TRIGGER,), "requests",
            "Requests for recalculation or history that slots have sent."),
    Counter("recalculated", (TRIGGER,), "batches",
            "Micro-batches of a slot in which late rows arrived for closed INTERVAL windows; these are "
            "triggered again at once, without a request."),
    Counter("started", (TRIGGER, CALC), "ns",
            "When the first task of the stream started working.", fold="earliest"),
    Counter("last_trigger", (TRIGGER,), "ns",
            "When the cause of the latest trigger event was written to the log (for PERIOD: the point in "
            "time).",
            fold="latest"),
    # calc-svc: the trigger loop
    Counter("events_taken", (CALC,), "events",
            "Trigger events of trigger-svc that calc-svc has finished with, whatever the outcome. The "
            "difference from events_sent is still waiting."),
    Counter("events_again", (CALC,), "events",
            "The same for events of recalculations and history."),
    Counter("repeated", (CALC,), "events",
            "Trigger events that came again after a restart of trigger-svc and were skipped."),
    Counter("calculations", (CALC,), "events", "Trigger events whose query was answered."),
    Counter("failures", (CALC,), "events", "Trigger events whose calculation failed permanently."),
    Counter("table_gone", (CALC,), "events",
            "Trigger events of a table that was dropped before they were calculated."),
    Counter("window_gone", (CALC,), "events",
            "Trigger events of recalculations whose window lost its first row before they were calculated."),
    Counter("last_calculated", (CALC,), "ns", "When the latest calculation ended.", fold="latest"),
    Counter("result_rows", (CALC,), "rows", "Result rows written to the output table."),
    Counter("null_key", (CALC,), "rows",
            "Result rows that were not stored because their key is NULL; notifications include them.",
            "dropped"),
    Counter("notices", (CALC,), "events",
            "Notification events that were created; each goes to every address of the stream and to "
            "subscribers."),
    # calc-svc: the loops that answer requests
    Counter("requests_answered", (RECALC, HISTORY), "requests",
            "Requests for recalculation or history that have been answered."),
    Counter("requests_failed", (RECALC, HISTORY), "requests",
            "Requests for recalculation or history that were given up."),
    Counter("rows_read_again", (RECALC, HISTORY), "rows", "Stored rows read to answer them."),
    # notify-svc
    Counter("notify_delivered", (NOTIFY,), "events",
            "Events that an address has confirmed, counted per address."),
    *(
        Counter(f"notify_{cause}", (NOTIFY,), "events",
                f"Events that were given up, counted per address: {words}.", "notify_dropped")
        for cause, words in (
            ("bad_address", "the address is not a WebSocket address"),
            ("forbidden", "the address is in a network that notifications may not be sent to"),
            ("unreached", "no WebSocket could be opened to the address, or it did not confirm in time"),
            ("full", "too many events were waiting for it"),
        )
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Counter] = {counter.name: counter for counter in COUNTERS}


def combined(records: Iterable[Counters]) -> dict[int, dict[str, int]]:
    """Stream uid -> counter -> value, over all tasks. It leaves out counters that nobody has counted, and
    those that this table does not know (from a newer writer)."""
    by_stream: dict[int, list[Mapping[str, int]]] = {}
    for record in records:
        by_stream.setdefault(record.stream, []).append(record.totals)
    return {stream: merged(parts) for stream, parts in by_stream.items()}


def merged(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The same for the tasks of one stream: counter -> value."""
    totals: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            if (counter := BY_NAME.get(name)) is not None:
                totals[name] = folded(counter, totals.get(name), value)
    return totals


def folded(counter: Counter, known: int | None, value: int) -> int:
    """Combines two values of a counter."""
    if known is None:
        return value
    match counter.fold:
        case "latest":
            return max(known, value)
        case "earliest":
            return min(known, value)
        case _:
            return known + value


def sum_of(totals: Mapping[str, int], sort: Sort) -> int:
    """The sum over all causes of a sort."""
    return sum(totals.get(one.name, 0) for one in COUNTERS if one.sort == sort)


Task = tuple[int, int]
"""A stream (its uid), and a slot or partition."""


class Tally:
    """What one process has counted for a service, on top of what was already told. Used by one thread.

    ``known``: gives the last record of a task in the log, whoever wrote it. It is called once per task, and
    again after the task has come back (:meth:`keep`).
    """

    def __init__(self, service: str, instance: str, known: Callable[[int, int], Counters | None]) -> None:
        self._service, self._instance, self._known = service, instance, known
        self._records: dict[Task, Counters] = {}
        self._fresh: dict[Task, dict[str, int]] = {}
        self._upto: dict[Task, int] = {}

    def add(self, stream: int, slot: int, counts: Mapping[str, int], upto: int = 0) -> None:
        """Count; zeros are left out. ``upto``: as in :class:`Counters`."""
        task, counts = (stream, slot), {name: count for name, count in counts.items() if count}
        if not counts and upto <= self.upto(stream, slot):
            return
        fresh = self._fresh.setdefault(task, {})
        for name, count in counts.items():
            fresh[name] = folded(BY_NAME[name], fresh.get(name), count)
        self._upto[task] = max(upto, self._upto.get(task, 0))

    def upto(self, stream: int, slot: int) -> int:
        """The first offset of the partition ``slot`` that has not been counted for this stream."""
        task = stream, slot
        return max(self._record(task).upto, self._upto.get(task, 0))

    def keep(self, slots: Set[int]) -> None:
        """Only these slots belong to this process now; other processes count the rest, on top of what was
        told."""
        self._records = {task: record for task, record in self._records.items() if task[1] in slots}
        self._upto = {task: upto for task, upto in self._upto.items() if task[1] in slots}

    def take(self) -> list[tuple[bytes, bytes]]:
        """The records to write (key, value), for all tasks that have counted since the last call."""
        news = []
        for task, fresh in self._fresh.items():
            record = self._record(task)
            totals = dict(record.totals)
            for name, count in fresh.items():
                totals[name] = folded(BY_NAME[name], totals.get(name), count)
            upto = max(record.upto, self._upto.get(task, 0))
            self._records[task] = record = Counters(self._service, *task, totals, self._instance, upto)
            news.append((key(record), encode(record)))
        self._fresh = {}
        return news

    def _record(self, task: Task) -> Counters:
        if task not in self._records:
            self._records[task] = self._known(*task) or Counters(self._service, *task, {}, self._instance)
        return self._records[task]
