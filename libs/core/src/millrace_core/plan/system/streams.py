"""The tables of information_schema about streams: their state, tasks, counters and recalculations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.model.life import shown_state
from millrace_core.model.schema import TICKS_PER_SECOND, stable_hash
from millrace_core.model.stream import Emission, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.plan.system import continuous
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.types import type_of
from millrace_core.wire.counters import CALC as RUNNER
from millrace_core.wire.counters import COUNTERS, HISTORY, RECALC, TRIGGER, combined, sum_of
from millrace_core.wire.status import Counters, QueryRuns, Recalculation

SystemRow = dict[str, object]
Statuses = Mapping[tuple[str, str], tuple[str, str]]
"""(database, stream) -> (status, message)."""

_NAME = DataType("VARCHAR", 192)
_INT = DataType("INT")
_TEXT = DataType("VARCHAR", 2048)
_DOUBLE = DataType("DOUBLE")
FAR = 253_402_300_799_000
"""The end of the year 9999 in ms: a range that reaches further is shown without an end."""


@dataclass(frozen=True, slots=True)
class News:
    """What the services report about streams. ``behind``: stream uid -> messages of the trigger table that
    are stored, but not yet evaluated. ``failures``: (uid, slot; None: the calculation) -> why it failed.
    ``instance``: the process of trigger-svc. ``runs``: those of continuous queries. ``closed``: streams
    (uids) whose counters whoever asks may not see."""

    statuses: Statuses = field(default_factory=dict)
    recalculations: Sequence[Recalculation] = ()
    counters: Sequence[Counters] = ()
    behind: Mapping[int, int] = field(default_factory=dict)
    failures: Mapping[tuple[int, int | None], str] = field(default_factory=dict)
    instance: str = ""
    runs: Sequence[QueryRuns] = ()
    closed: frozenset[int] = frozenset()

    def status_of(self, entry: StreamEntry) -> tuple[str, str]:
        """(status, message); a stream about which nobody has reported anything is ``Init``."""
        return self.statuses.get((entry.spec.db, entry.spec.name), ("Init", ""))


STREAM_TABLES: dict[str, dict[str, DataType]] = {
    "ins_streams": {
        "stream_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP, "stream_id": _NAME, "sql": _TEXT,
        "status": _NAME, "snodeleader": _INT, "snodereplica": _INT, "message": _TEXT,
        "rows_read": BIGINT, "rows_unused": BIGINT, "events_sent": BIGINT, "events_waiting": BIGINT,
        "calculations": BIGINT, "failures": BIGINT, "result_rows": BIGINT, "rows_dropped": BIGINT,
        "recalculations": BIGINT, "notices": BIGINT, "notify_delivered": BIGINT, "notify_dropped": BIGINT,
        "messages_behind": BIGINT, "last_trigger": TIMESTAMP, "last_calculated": TIMESTAMP,
        "source_db": _NAME, "target_db": _NAME, "target_table": _NAME, "watermark": _NAME, "trigger": _NAME,
    },
    "ins_stream_tasks": {
        "stream_name": _NAME, "stream_id": _NAME, "task_id": _NAME, "type": _NAME, "serious_id": _NAME,
        "deploy_id": _INT, "node_type": _NAME, "node_id": _INT, "task_idx": _INT, "status": _NAME,
        "start_time": TIMESTAMP, "last_update": TIMESTAMP, "extra_info": _TEXT, "message": _TEXT,
        "db_name": _NAME, "instance": _NAME,
    },
    "ins_stream_recalculates": {
        "stream_name": _NAME, "stream_id": _NAME, "recalc_id": _NAME, "start": TIMESTAMP, "end": TIMESTAMP,
        "progress": _NAME, "status": _NAME, "reason": _NAME, "fraction": _DOUBLE, "rows_read": BIGINT,
        "events_sent": BIGINT, "message": _TEXT, "time_left": _DOUBLE,
    },
    "ins_stream_counters": {
        "stream_name": _NAME, "db_name": _NAME, "stream_id": _NAME, "counter": _NAME, "value": BIGINT,
        "unit": _NAME, "service": _NAME, "kind": _NAME, "meaning": _TEXT,
    },
    "ins_continuous_queries": continuous.COLUMNS,
}  # fmt: skip
"""Columns of each table. In tables of streams TDengine 3.3.7's columns come first, with its names."""


def stream_rows(name: str, catalog: Catalog, news: News) -> list[SystemRow]:
    """The rows of one of :data:`STREAM_TABLES`; missing cells are NULL."""
    return list(_ROWS[name](catalog, news))


COUNTED = (
    "rows_read", "rows_unused", "events_sent", "events_waiting", "calculations", "failures", "result_rows",
    "rows_dropped", "recalculations", "notices", "notify_delivered", "notify_dropped", "messages_behind",
    "last_trigger", "last_calculated",
)  # fmt: skip
"""The columns of ``ins_streams`` that are counted."""
_ABSENT = {"sum": 0, "latest": None, "earliest": None}
"""The value of a counter that nobody has counted."""


def _streams(catalog: Catalog, news: News) -> Iterator[SystemRow]:
    """``rows_unused``, ``rows_dropped``, ``notify_dropped``: totals over all causes; ins_stream_counters
    shows each cause. ``events_waiting``: sent by trigger-svc, but not yet calculated. ``recalculations``:
    requested or not."""
    totals = combined(news.counters)
    for entry in catalog.streams.values():
        spec, mine = entry.spec, totals.get(entry.spec.uid, {})
        status, message = news.status_of(entry)
        sent, taken = mine.get("events_sent", 0), mine.get("events_taken", 0)
        yield {
            "stream_name": spec.name, "db_name": spec.db, "create_time": spec.created,
            "stream_id": f"{spec.uid:x}", "sql": spec.shown_sql, "snodeleader": 1,
            "status": shown_state(spec, status),
            "message": message, "rows_read": mine.get("rows_read", 0),
            "rows_unused": sum_of(mine, "unused"), "events_sent": sent,
            "events_waiting": max(sent - taken, 0), "calculations": mine.get("calculations", 0),
            "failures": mine.get("failures", 0), "result_rows": mine.get("result_rows", 0),
            "rows_dropped": sum_of(mine, "dropped"),
            "recalculations": mine.get("requests_answered", 0) + mine.get("recalculated", 0),
            "notices": mine.get("notices", 0), "notify_delivered": mine.get("notify_delivered", 0),
            "notify_dropped": sum_of(mine, "notify_dropped"), "messages_behind": news.behind.get(spec.uid),
            "last_trigger": _ms(mine, "last_trigger"), "last_calculated": _ms(mine, "last_calculated"),
            **definition_of(spec), **(dict.fromkeys(COUNTED) if spec.uid in news.closed else {}),
        }  # fmt: skip
    yield from continuous.as_streams(catalog, news.runs)


def definition_of(spec: StreamSpec) -> SystemRow:
    """What the older dialect's SHOW STREAMS shows of a definition. ``trigger``: when results come; for a
    stream of a database, what triggers it."""
    source, output = spec.source, spec.output
    return {
        "source_db": source.table.db if source else None, "target_db": output.db if output else None,
        "target_table": output.table if output else None, "watermark": str(spec.options.watermark or "0s"),
        "trigger": type_of(spec.trigger).name.lower() if spec.db else mode_words(spec.emission),
    }  # fmt: skip


def mode_words(emission: Emission) -> str:
    """When results come out, in words: ``at once``, ``max delay 5s``."""
    words = emission.when.replace("_", " ")
    return f"{words} {emission.every}" if emission.when == "max_delay" else words


def _ms(totals: Mapping[str, int], moment: str) -> int | None:
    return milliseconds(totals[moment]) if moment in totals else None


def _counters(catalog: Catalog, news: News) -> Iterator[SystemRow]:
    """All counters of all streams: 0 if nobody has counted, NULL for a moment that has not come yet."""
    totals = combined(news.counters)
    for entry in catalog.streams.values():
        spec, mine = entry.spec, totals.get(entry.spec.uid, {})
        for counter in COUNTERS:
            yield {
                "stream_name": spec.name, "db_name": spec.db, "stream_id": f"{spec.uid:x}",
                "counter": counter.name, "unit": counter.unit, "service": ", ".join(counter.services),
                "value": mine.get(counter.name, None if spec.uid in news.closed else _ABSENT[counter.fold]),
                "kind": counter.sort, "meaning": counter.meaning,
            }  # fmt: skip
    yield from continuous.counters(catalog, news.runs)


# -- tasks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TaskType:
    """``info``: counters that tell what the task did, each with words for it; ``last``: when it did it."""

    name: str
    info: tuple[tuple[str, str], ...]
    last: str = ""


TASK_TYPES: dict[str, _TaskType] = {
    TRIGGER: _TaskType(
        "Trigger", (("rows_read", "rows read"), ("events_sent", "events sent")), "last_trigger"
    ),
    RUNNER: _TaskType(
        "Runner", (("calculations", "calculated"), ("result_rows", "rows written"), ("failures", "failed")),
        "last_calculated",
    ),
    RECALC: _TaskType("Recalculation", (("requests_answered", "answered"), ("rows_read_again", "rows read"))),
    HISTORY: _TaskType("History", (("requests_answered", "answered"), ("rows_read_again", "rows read"))),
}  # fmt: skip
"""What runs tasks: a slot of trigger-svc is one task, and so is a partition of the topic that
calc-svc reads."""


def _tasks(catalog: Catalog, news: News) -> Iterator[SystemRow]:
    """A stream's tasks are those that have reported something. If no trigger or no calculation runs yet,
    there is a row of that type without a number."""
    told: dict[int, list[Counters]] = {}
    for record in news.counters:
        if record.service in TASK_TYPES:
            told.setdefault(record.stream, []).append(record)
    order = list(TASK_TYPES)
    for entry in catalog.streams.values():
        mine = sorted(told.get(entry.spec.uid, []), key=lambda one: (order.index(one.service), one.slot))
        there = {record.service for record in mine}
        for service in (TRIGGER, RUNNER):
            if service not in there:
                yield _task(entry, news, Counters(service, entry.spec.uid, -1, {}))
        for record in mine:
            yield _task(entry, news, record)


def _task(entry: StreamEntry, news: News, record: Counters) -> SystemRow:
    spec, type_ = entry.spec, TASK_TYPES[record.service]
    status, message = _task_status(entry, news, record)
    number = None if record.slot < 0 else record.slot
    info = [f"{words}: {record.totals[name]}" for name, words in type_.info if name in record.totals]
    return {
        "stream_name": spec.name, "stream_id": f"{spec.uid:x}", "db_name": spec.db,
        "task_id": f"{stable_hash('task', spec.uid, record.service, record.slot):x}", "type": type_.name,
        "serious_id": f"{stable_hash('deployed', spec.uid, entry.epoch):x}", "deploy_id": entry.epoch,
        "node_type": "snode", "node_id": 1, "task_idx": number,
        "status": shown_state(spec, status), "message": message,
        "start_time": _ms(record.totals, "started"), "last_update": _ms(record.totals, type_.last),
        "extra_info": ", ".join(info), "instance": record.instance or _instance(news, record.service),
    }  # fmt: skip


def _instance(news: News, service: str) -> str | None:
    return news.instance or None if service == TRIGGER else None


def _task_status(entry: StreamEntry, news: News, record: Counters) -> tuple[str, str]:
    """The status of a task is that of its stream, except for failures and pauses of other tasks."""
    status, message = news.status_of(entry)
    if record.service == TRIGGER:
        if (failure := news.failures.get((entry.spec.uid, record.slot))) is not None:
            return "Failed", failure
        return (entry.wanted, "") if status in ("Failed", "Paused") else (status, message)
    if record.service == RUNNER and (failure := news.failures.get((entry.spec.uid, None))) is not None:
        return "Failed", failure
    return (entry.wanted, "") if status == "Failed" else (status, message)


# -- recalculations ------------------------------------------------------------------------------------------


def _recalculates(catalog: Catalog, news: News) -> Iterator[SystemRow]:
    """``progress`` is TDengine's column; the columns after it say more. ``time_left`` is in seconds."""
    entries = {entry.spec.uid: entry for entry in catalog.streams.values()}
    for one in news.recalculations:
        if (entry := entries.get(one.stream)) is None:
            continue
        source = entry.spec.source
        ticks = TICKS_PER_SECOND[source.table.precision if source else "ms"]
        first, last = (max(min(at * 1000 // ticks, FAR), -FAR) for at in (one.first, one.last))
        yield {
            "stream_name": entry.spec.name, "stream_id": f"{one.stream:x}",
            "recalc_id": f"{stable_hash('recalculation', one.stream, one.partition, one.offset):x}",
            "start": None if first == -FAR else first, "end": None if last == FAR else last,
            "progress": f"{one.fraction * 100:.1f}%", "status": one.state, "reason": one.why,
            "fraction": one.fraction, "rows_read": one.rows, "events_sent": one.events,
            "message": one.message, "time_left": one.seconds_left,
        }  # fmt: skip


def _queries(catalog: Catalog, news: News) -> Iterator[SystemRow]:
    return continuous.queries(catalog, news.runs)


_ROWS = {
    "ins_streams": _streams,
    "ins_stream_tasks": _tasks,
    "ins_stream_recalculates": _recalculates,
    "ins_stream_counters": _counters,
    "ins_continuous_queries": _queries,
}
