"""The streams of a seed: their statements, and what the oracle needs to know of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

By = Literal["tbname", "site", ""]


class Interval(NamedTuple):
    """Times in ms, as everywhere here."""

    length: int
    slide: int


class Session(NamedTuple):
    gap: int


class State(NamedTuple):
    true_for: int = 0


class Event(NamedTuple):
    """START WITH v >= ``start`` END WITH v < ``end``."""

    start: int
    end: int
    true_for: int = 0


class Count(NamedTuple):
    rows: int
    slide: int


class Sliding(NamedTuple):
    slide: int


Trigger = Interval | Session | State | Event | Count | Sliding


@dataclass(frozen=True)
class Stream:
    """One stream. ``source``: ``meters``, ``ticks`` or the name of the stream whose output table triggers it;
    ``begins``: the share of the load after which it is made, with the history of its table; ``least``: rows
    whose ``v`` is less are filtered; ``no_data``: whether empty windows fire; ``trows``: it reads
    %%trows; ``retract``: results of windows that are none any more leave its output."""

    name: str
    trigger: Trigger
    source: str = "meters"
    by: By = "tbname"
    begins: float = 0.0
    history: str = "FILL_HISTORY"
    watermark: int = 0
    least: int | None = None
    no_data: bool = True
    notify: bool = False
    trows: bool = False
    retract: bool = False

    @property
    def output(self) -> str:
        """The output table."""
        return f"{self.name}_out"

    @property
    def nested(self) -> bool:
        """Whether it triggers on results."""
        return self.source not in ("meters", "ticks")


STREAMS: tuple[Stream, ...] = (
    Stream("by_length", Interval(10_000, 10_000), notify=True),
    Stream("overlapping", Interval(20_000, 10_000), by="site", watermark=5_000, trows=True),
    Stream("of_all", Interval(15_000, 15_000), by="", no_data=False),
    Stream("by_gap", Session(6_000), notify=True),
    Stream("site_gap", Session(2_000), by="site", watermark=3_000),
    Stream("filtered", Session(3_000), least=20),
    Stream("by_state", State(), notify=True, trows=True),
    Stream("long_state", State(2_000), watermark=4_000),
    Stream("by_event", Event(70, 30)),
    Stream("long_event", Event(80, 20, 3_000), trows=True),
    Stream("by_count", Count(7, 7), "ticks"),
    Stream("count_on", Count(9, 3), "ticks", begins=0.3, history="FILL_HISTORY_FIRST"),
    Stream("by_slide", Sliding(10_000), "ticks"),
    Stream("past_gap", Session(6_000), begins=0.35),
    Stream("past_length", Interval(10_000, 10_000), by="site", begins=0.5, history="FILL_HISTORY_FIRST"),
    Stream("past_state", State(), begins=0.6),
    Stream("exact_gap", Session(6_000), retract=True),
    Stream("exact_state", State(), trows=True, retract=True),
    Stream("exact_event", Event(70, 30), retract=True),
    Stream("nested_exact", Interval(60_000, 60_000), "exact_gap"),
    Stream("nested_length", Interval(60_000, 60_000), "by_gap", notify=True),
    Stream("nested_all", Interval(30_000, 30_000), "by_length", by=""),
    Stream("nested_count", Session(60_000), "nested_length", by=""),
)


def source_table(stream: Stream) -> str:
    """The table that triggers it."""
    return f"{stream.source}_out" if stream.nested else stream.source


def child_name(stream: Stream, group: str) -> str:
    """The output table of a group: the child that OUTPUT_SUBTABLE names, without groups the table itself."""
    return f"{stream.name}_{group}" if stream.by else stream.output


def statement(stream: Stream, db: str, address: str) -> str:
    """CREATE STREAM, which may be sent again. ``address``: where its notifications go."""
    parts = [f"CREATE STREAM IF NOT EXISTS {db}.{stream.name} {_trigger(stream.trigger)}"]
    parts.append(f"FROM {db}.{source_table(stream)}")
    if stream.by:
        parts.append(f"PARTITION BY {stream.by}")
    if options := _options(stream):
        parts.append(f"STREAM_OPTIONS({' | '.join(options)})")
    if stream.notify:
        parts.append(
            f"NOTIFY('{address}') ON (WINDOW_OPEN | WINDOW_CLOSE)"
            " NOTIFY_OPTIONS(NOTIFY_HISTORY | ON_FAILURE_PAUSE)"
        )
    parts.append(f"INTO {db}.{stream.output}")
    if stream.by:
        group = "tbname" if stream.by == "tbname" else "cast(site AS VARCHAR(9))"
        parts.append(f"OUTPUT_SUBTABLE(concat('{stream.name}_', {group}))")
    parts.append(f"AS {_query(stream, db)}")
    return " ".join(parts)


def reading(stream: Stream, db: str) -> str:
    """SELECT of group, start, end, rows and sum of all results."""
    group = {"tbname": "tag_tbname", "site": "cast(site AS VARCHAR(9))", "": "''"}[stream.by]
    return f"SELECT {group}, cast(ts AS BIGINT), cast(upto AS BIGINT), n, total FROM {db}.{stream.output}"


def _trigger(trigger: Trigger) -> str:
    match trigger:
        case Interval(length, slide):
            return f"INTERVAL({length}a) SLIDING({slide}a)"
        case Session(gap):
            return f"SESSION(ts, {gap}a)"
        case State(true_for):
            return "STATE_WINDOW(s)" + _true_for(true_for)
        case Event(start, end, true_for):
            return f"EVENT_WINDOW(START WITH v >= {start} END WITH v < {end})" + _true_for(true_for)
        case Count(rows, slide):
            return f"COUNT_WINDOW({rows}, {slide})"
        case Sliding(slide):
            return f"SLIDING({slide}a)"


def _true_for(duration: int) -> str:
    return f" TRUE_FOR({duration}a)" if duration else ""


def _options(stream: Stream) -> list[str]:
    found = []
    if stream.source != "ticks":
        found.append("DELETE_RECALC")
    if stream.watermark:
        found.append(f"WATERMARK({stream.watermark}a)")
    if stream.least is not None:
        found.append(f"PRE_FILTER(v >= {stream.least})")
    if stream.begins:
        found.append(stream.history)
    if not stream.no_data:
        found.append("IGNORE_NODATA_TRIGGER")
    if stream.retract:
        found.append("RETRACT")
    return found


def _query(stream: Stream, db: str) -> str:
    value = "n" if stream.nested else "v"
    ends = "_tcurrent_ts AS ts, _tprev_ts AS upto" if isinstance(stream.trigger, Sliding) else (
        "_twstart AS ts, _twend AS upto"
    )  # fmt: skip
    select = f"SELECT {ends}, count(*) AS n, sum({value}) AS total"
    if stream.trows:
        return f"{select} FROM %%trows"
    conditions = {
        Interval: "ts >= _twstart AND ts < _twend", Sliding: "ts > _tprev_ts AND ts <= _tcurrent_ts",
    }  # fmt: skip
    where = conditions.get(type(stream.trigger), "ts >= _twstart AND ts <= _twend")
    if stream.by == "site":
        where = f"site = %%1 AND {where}"
    table = "%%tbname" if stream.by == "tbname" else f"{db}.{source_table(stream)}"
    return f"{select} FROM {table} WHERE {where}"
