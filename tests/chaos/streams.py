"""A stream of a seed: its statement, and what the oracle needs to know of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

By = Literal["tbname", "site", "half", ""]
"""What groups are made of; ``half``: whether v is 50 or more, row by row (the older dialect alone)."""


class Interval(NamedTuple):
    """Times in ms, as everywhere here."""

    length: int
    slide: int
    offset: int = 0


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


class EveryRow(NamedTuple):
    """No window: a result for each row (the older dialect alone)."""


Trigger = Interval | Session | State | Event | Count | Sliding | EveryRow


@dataclass(frozen=True)
class Stream:
    """One stream. ``source``: ``meters``, ``ticks`` or the name of the stream whose output table triggers it;
    ``begins``: the share of the load after which it is made, with the history of its table; ``least``: rows
    whose ``v`` is less are filtered; ``no_data``: whether empty windows fire; ``trows``: it reads
    %%trows; ``retract``: results of windows that are none any more leave its output; ``older``: it is of the
    older dialect, and this is its TRIGGER (results of windows that are none any more leave its output, too);
    ``fill``: what FILL(VALUE) says of windows without rows."""

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
    older: str = ""
    fill: int | None = None

    @property
    def exact(self) -> bool:
        """Whether its output has the windows of the rows, and nothing else."""
        return self.retract or bool(self.older)

    @property
    def shows(self) -> bool:
        """Whether windows are in its output before they close."""
        return self.older.startswith(("AT_ONCE", "MAX_DELAY"))

    @property
    def fires_empty(self) -> bool:
        """Whether time windows without rows have a result as others have."""
        return isinstance(self.trigger, Interval) and self.no_data and not self.older

    @property
    def after(self) -> int:
        """How far behind its last row a session ends."""
        return self.trigger.gap if self.older and isinstance(self.trigger, Session) else 0

    def full_name(self, db: str) -> str:
        """As SQL has it: names of the older dialect belong to no database."""
        return f"{db}_{self.name}" if self.older else f"{db}.{self.name}"

    @property
    def output(self) -> str:
        """The output table."""
        return f"{self.name}_out"

    @property
    def nested(self) -> bool:
        """Whether it triggers on results."""
        return self.source not in ("meters", "ticks")


def source_table(stream: Stream) -> str:
    """The table that triggers it."""
    return f"{stream.source}_out" if stream.nested else stream.source


def child_name(stream: Stream, group: str) -> str:
    """The output table of a group: the child that OUTPUT_SUBTABLE names, without groups the table itself."""
    return f"{stream.name}_{group}" if stream.by else stream.output


def statement(stream: Stream, db: str, address: str) -> str:
    """CREATE STREAM, which may be sent again. ``address``: where its notifications go."""
    if stream.older:
        return older(stream, db, address)
    parts = [f"CREATE STREAM IF NOT EXISTS {stream.full_name(db)} {_trigger(stream.trigger)}"]
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
    group = {"tbname": "tag_tbname", "site": "cast(site AS VARCHAR(9))", "": "''"}
    of = "grp" if stream.older and stream.by else group[stream.by]
    return f"SELECT {of}, cast(ts AS BIGINT), cast(upto AS BIGINT), n, total FROM {db}.{stream.output}"


def _trigger(trigger: Trigger) -> str:
    match trigger:
        case Interval():
            return _interval(trigger)
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
        case EveryRow():
            raise ValueError("every row: the newer dialect has no word for it")


def _interval(trigger: Interval) -> str:
    offset = f", {trigger.offset}a" if trigger.offset else ""
    return f"INTERVAL({trigger.length}a{offset}) SLIDING({trigger.slide}a)"


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


def older(stream: Stream, db: str, address: str) -> str:
    """CREATE STREAM of the older dialect. What is late or written again counts, but for COUNT_WINDOW, which
    takes no late rows."""
    late = 1 if isinstance(stream.trigger, Count) else 0
    parts = [f"CREATE STREAM IF NOT EXISTS {stream.full_name(db)} TRIGGER {stream.older}"]
    parts.append(f"IGNORE EXPIRED {late} IGNORE UPDATE 0")
    if stream.watermark:
        parts.append(f"WATERMARK {stream.watermark}a")
    if stream.begins:
        parts.append("FILL_HISTORY 1")
    parts.append(f"INTO {db}.{stream.output}")
    if stream.by:
        parts.append(f"TAGS (grp VARCHAR(64)) SUBTABLE(concat('{stream.name}_', grp))")
    parts.append(f"AS {_older_query(stream, db)}")
    if stream.notify:
        parts.append(f"NOTIFY ('{address}') ON ('WINDOW_OPEN', 'WINDOW_CLOSE') NOTIFY_HISTORY 1")
    return " ".join(parts)


def _older_query(stream: Stream, db: str) -> str:
    value = "n" if stream.nested else "v"
    select = f"_wstart AS ts, _wend AS upto, count(*) AS n, sum({value}) AS total"
    if isinstance(stream.trigger, EveryRow):
        select = f"ts, ts AS upto, 1 AS n, {value} AS total"
    parts = [f"SELECT {select} FROM {db}.{source_table(stream)}"]
    if stream.least is not None:
        parts.append(f"WHERE {value} >= {stream.least}")
    if stream.by:
        group = {"tbname": "tbname", "site": "cast(site AS VARCHAR(9))"}
        half = f"CASE WHEN {value} >= 50 THEN 'high' WHEN {value} < 50 THEN 'low' END"
        parts.append(f"PARTITION BY {group.get(stream.by, half)} AS grp")
    match stream.trigger:
        case Interval():
            parts.append(_interval(stream.trigger))
        case Event(start, end):
            parts.append(f"EVENT_WINDOW START WITH v >= {start} END WITH v < {end}")
        case EveryRow():
            pass
        case other:
            parts.append(_trigger(other))
    if stream.fill is not None:
        parts.append(f"FILL(VALUE, {stream.fill}, {stream.fill})")
    return " ".join(parts)
