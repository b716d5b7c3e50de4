"""From a stream's outcomes to the messages with the rows of its output table. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from millrace_core.calc.cells import json_rows, plain
from millrace_core.calc.conversion import Where, convert, scale
from millrace_core.calc.outcome import Outcome, rows_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Precision, Table, cut_name
from millrace_core.model.stream import EventType, ResultColumn, StreamSpec
from millrace_core.model.sub_tables import group_id, sub_table
from millrace_core.wire.events import EventKind, Group, TriggerEvent
from millrace_core.wire.message import Message
from millrace_core.wire.rows.arrow import MANY_ROWS, encode_frame
from millrace_core.wire.topics import wal_topic

EVENT_TYPES: dict[EventKind, EventType] = {
    "OPEN": "WINDOW_OPEN", "CLOSE": "WINDOW_CLOSE", "ON_TIME": "ON_TIME", "INVALID": "WINDOW_INVALIDATION",
}  # fmt: skip
ROWS_PER_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class SubTable:
    """A group's output table: its name, and its tags by name (none for a normal table). ``fault``: why
    nothing can be written to it."""

    name: str
    tags: Mapping[str, object]
    fault: str | None = None


@dataclass(slots=True)
class Written:
    """WAL messages for the output tables, and how many rows were left out because their key is NULL.
    ``times``: the times of the rows by sub-table, if they were asked for."""

    messages: list[Message] = field(default_factory=list)
    rows: int = 0
    null_keys: int = 0
    times: dict[str, list[int]] = field(default_factory=dict)


def event_type(event: TriggerEvent) -> EventType:
    return EVENT_TYPES[event.kind]


def calculates(spec: StreamSpec, event: TriggerEvent) -> bool:
    """Whether the event asks for a calculation: OPEN and CLOSE only if EVENT_TYPE has them, or MAX_DELAY."""
    if spec.query is None or event.kind in ("INVALID", "RETRACT"):
        return False
    return event.kind == "ON_TIME" or event.cause == "DELAY" or event_type(event) in spec.options.event_types


def check_output(spec: StreamSpec, table: Table) -> None:
    """:raises MillraceError: TYPE_MISMATCH if the output table was altered so that results do not fit it."""
    assert spec.output is not None
    wanted = [(column, table.column(column.name)) for column in spec.output.columns]
    wanted += [(tag.column, table.tag(tag.column.name)) for tag in spec.output.tags]
    for column, found in wanted:
        if found is None or not found.type.holds(column.type):
            now = "is missing" if found is None else f"is now {found.type}"
            raise MillraceError(
                ErrorCode.TYPE_MISMATCH,
                f"the output table {table.db}.{table.name} no longer matches the stream: {column.name} must "
                f"be {column.type}, but {now}",
            )
    if spec.output.grouped != (table.kind == "super"):
        raise MillraceError(
            ErrorCode.TYPE_MISMATCH, f"the output table {table.db}.{table.name} is now a {table.kind} table"
        )


def made_up_name(spec: StreamSpec, group: Group) -> str:
    """The name of a group's sub-table where the stream gives none: unique per stream and group."""
    digest = hashlib.blake2b(f"{spec.uid}/{group.id}/{group.key}".encode(), digest_size=16).hexdigest()
    return f"t_{digest}"


def sub_table_name(spec: StreamSpec, group: Group, given: str | None) -> str:
    """The name of a group's sub-table, cut to the permitted length. ``given``: the value of the stream's
    expression for it; if that is None or empty, a name is made up."""
    assert spec.output is not None
    if spec.output.naming == "distinct":
        return sub_table(spec.output.table, group_number(spec, group), given)
    return cut_name(given) if given else made_up_name(spec, group)


def group_number(spec: StreamSpec, group: Group) -> int:
    """The id of a group as its tag states it (``model.sub_tables.group_id``)."""
    own_table = group.id if spec.partition == ("tbname",) and len(group.key) == 1 else None
    return group_id(group.key, partitioned=bool(group.key), table_uid=own_table)


def write_results(
    spec: StreamSpec, table: Table, result: Sequence[ResultColumn], precision: Precision,
    found: Sequence[tuple[TriggerEvent, Outcome]], subtable: Callable[[Group], SubTable],
    known: Callable[[str], bool], *, with_times: bool = False,
) -> Written:  # fmt: skip
    """The result rows as messages for the output table's WAL topic, in the order of the events.

    ``known``: whether a sub-table exists; if it does not, its first message carries its tags. ``with_times``:
    the rows' times are asked for.
    """
    written = Written()
    columns = spec.output.columns if spec.output and spec.output.columns else table.columns
    by_table: dict[str, list[int]] = {}
    tables: dict[str, SubTable] = {}
    used = [(event, outcome) for event, outcome in found if outcome.error is None]
    if not used:
        return written
    found_rows = rows_of([outcome for _, outcome in used])
    frame = _converted(found_rows, result, columns, precision, table.precision, spec.timezone)
    keys = frame[columns[0].name]
    timed = keys.is_not_null().to_list() if keys.null_count() else None
    end = 0
    for event, outcome in used:
        own = range(end, end + outcome.count)
        end = own.stop
        # an opening calculation creates the sub-table even if it gives no row
        if not own and event.kind != "OPEN":
            continue
        home = subtable(event.group)
        tables.setdefault(home.name, home)
        kept = own if timed is None else [place for place in own if timed[place]]
        written.null_keys += len(own) - len(kept)
        by_table.setdefault(home.name, []).extend(kept)
    topic = wal_topic(table.db, table.name)
    few = any(len(places) < MANY_ROWS for places in by_table.values())
    rows = json_rows(frame, frame.columns) if few else []
    for name, places in by_table.items():
        written.rows += len(places)
        if with_times:
            written.times[name] = keys[places].to_list()
        new = table.kind == "super" and not known(name)
        if len(places) < MANY_ROWS:
            written.messages += _message(topic, tables[name], [rows[place] for place in places], new)
        else:
            written.messages += _arrow_messages(topic, tables[name], frame[places], new)
    return written


def _converted(
    rows: pl.DataFrame, result: Sequence[ResultColumn], columns: Sequence[Column], precision: Precision,
    ticks: Precision, where: Where,
) -> pl.DataFrame:  # fmt: skip
    """Results as rows of the output table. Times in the results have this ``precision``, those in the table
    are in ``ticks``."""
    factor = scale(precision, ticks)
    series = [
        convert(rows[f"r{place}"], source, target, factor, ticks, where).alias(target.name)
        for place, (source, target) in enumerate(zip(result, columns, strict=True))
    ]
    return plain(pl.DataFrame(series))


def _message(topic: str, home: SubTable, rows: Sequence[str], new: bool) -> list[Message]:
    """Few rows: one JSON message, with the table's tags if the table is not known yet. No message if there is
    nothing to write. ``rows``: as :func:`json_rows` gives them."""
    if not rows and not new:
        return []
    value = f"[{','.join(rows)}]".encode()
    if new:
        value = msgspec.json.encode({"tags": home.tags, "rows": msgspec.Raw(value)})
    return [Message(topic, home.name.encode(), value)]


def _arrow_messages(topic: str, home: SubTable, rows: pl.DataFrame, new: bool) -> list[Message]:
    """Many rows: Arrow, which holds no tags. A table that is not known yet is created by a message of its own
    before them."""
    return [
        *(_message(topic, home, [], new)),
        *(
            Message(topic, home.name.encode(), encode_frame(part))
            for part in rows.iter_slices(ROWS_PER_MESSAGE)
        ),
    ]
