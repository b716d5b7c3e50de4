"""From a stream's outcomes to the messages they become: rows of the output table, and notifications. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import polars as pl

from millrace_core.calc.conversion import Where, convert, rescaled, scale
from millrace_core.calc.outcome import NOTIFY, Outcome, rows_of
from millrace_core.calc.shapes import shape_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Precision, Table, cut_name
from millrace_core.model.stream import EventType, ResultColumn, StreamSpec
from millrace_core.model.sub_tables import group_id, sub_table
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import EventKind, Group, TriggerEvent
from millrace_core.wire.message import Message
from millrace_core.wire.notices import Notice
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
    rows = _dicts(frame, frame.columns) if few else []
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
    return _plain(pl.DataFrame(series))


def _dicts(frame: pl.DataFrame, names: Sequence[str]) -> list[dict[str, object]]:
    """Its rows, under these names. Column by column: half of the time that polars takes row by row."""
    columns = [series.to_list() for series in frame]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells that JSON can hold: no infinities, text for bytes."""
    changed = []
    for series in frame:
        if series.dtype.is_float():
            if not np.isfinite(series.to_numpy()).all():  # a NULL is NaN there
                changed.append(series.set(~series.is_finite(), None))
        elif series.dtype == pl.Binary:
            texts = [None if v is None else v.decode("utf-8", "replace") for v in series]
            changed.append(pl.Series(series.name, texts, dtype=pl.String))
    return frame.with_columns(changed) if changed else frame


def _message(topic: str, home: SubTable, rows: list[dict[str, object]], new: bool) -> list[Message]:
    """Few rows: one JSON message, with the table's tags if the table is not known yet. No message if there is
    nothing to write."""
    if not rows and not new:
        return []
    value = {"tags": home.tags, "rows": rows} if new else rows
    return [Message(topic, home.name.encode(), msgspec.json.encode(value))]


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


def notices(
    spec: StreamSpec, result: Sequence[ResultColumn], events: Sequence[tuple[TriggerEvent, Outcome | None]],
    table_name: Callable[[Group], str | None], factor: tuple[int, int], times: tuple[int, int] = (1, 1),
    met: Sequence[bool] | None = None,
) -> list[Notice]:  # fmt: skip
    """The notifications of these events, in order: the seed's JSON objects.

    ``factor`` converts window times, ``times`` the times in results: both are given in the output table's
    precision. ``met``: whether each event meets NOTIFY's WHERE, if that has constants only (``plan.notify``).
    """
    found: list[Notice] = []
    told = set(spec.options.event_types) | {"ON_TIME", "WINDOW_INVALIDATION"}
    if spec.notify:
        told |= set(spec.notify.events)
    # MAX_DELAY calculates what there is so far: the window is still open
    silent = {"DELAY"} if spec.notify and spec.notify.history else {"DELAY", "HISTORY"}
    over_columns = spec.notify is not None and spec.notify.where is not None and met is None
    events = [
        (event, outcome)
        for place, (event, outcome) in enumerate(events)
        if EVENT_TYPES.get(event.kind) in told
        and event.cause not in silent
        and (not over_columns if outcome is None else outcome.error is None)
        and (met is None or met[place])
    ]
    cells = _result_cells(result, events, times)
    stream, pause = spec.full_name, spec.notify is not None and spec.notify.pause_on_failure
    to = {kind: _urls(spec, kind) for kind in EVENT_TYPES.values()}
    base_of = _bases(spec, factor)
    groups: dict[int, tuple[str, str | None]] = {}  # thousands of events belong to a few groups
    for place, (event, _) in enumerate(events):
        kind, id_ = event_type(event), event.group.id
        if id_ not in groups:
            groups[id_] = str(id_), table_name(event.group)
        group, table = groups[id_]
        base = base_of(event, kind, group, table)
        found += [
            Notice(stream, group, told_of, to[kind], pause)
            for told_of in _with_results(base, cells.get(place))
        ]
    return found


def _urls(spec: StreamSpec, kind: EventType) -> tuple[str, ...]:
    if spec.notify is None:
        return ()
    # ON is ignored for SLIDING and PERIOD
    always = kind in ("ON_TIME", "WINDOW_INVALIDATION")
    if kind == "WINDOW_INVALIDATION" and shape_of(spec).invalid_with_close:
        always = "WINDOW_CLOSE" in spec.notify.events
    return spec.notify.urls if always or kind in spec.notify.events else ()


def _bases(
    spec: StreamSpec, factor: tuple[int, int]
) -> Callable[[TriggerEvent, EventType, str, str | None], dict[str, object]]:
    """Makes the part of a notification that does not depend on the result, from the event, its type, its
    group's id and its table's name."""
    type_, shape = type_of(spec.trigger), shape_of(spec)
    called, window, (up, down) = shape.types.get(type_.name, type_.name), type_.window, factor
    id_, kind_of_trigger = shape.id, shape.type

    def base_of(event: TriggerEvent, kind: EventType, group: str, table: str | None) -> dict[str, object]:
        if table is None and shape.names_table:
            table = sub_table(spec.name, event.group.id)
        base: dict[str, object] = {} if table is None else {"tableName": table}
        base["eventType"] = kind
        base["eventTime"] = milliseconds(event.localtime)
        base[id_] = event.id
        base[kind_of_trigger] = called
        base["groupId"] = group
        if window:
            base["windowStart"] = event.start * up // down
            if event.kind != "OPEN":
                base["windowEnd"] = event.end * up // down
        return base | event.detail if event.detail else base

    return base_of


Cells = Sequence[dict[str, object] | None]
"""The result rows of an event; None in place of one that NOTIFY's condition leaves out."""


def _result_cells(
    result: Sequence[ResultColumn], events: Sequence[tuple[TriggerEvent, Outcome | None]],
    times: tuple[int, int],
) -> dict[int, Cells]:  # fmt: skip
    """The result rows of each event, by its place in the list; all are converted at once."""
    calculated = [
        (place, outcome)
        for place, (_, outcome) in enumerate(events)
        if outcome is not None and outcome.error is None
    ]
    if not calculated:
        return {}
    rows = rows_of([outcome for _, outcome in calculated])
    columns = (rescaled(rows[f"r{place}"], column, times) for place, column in enumerate(result))
    plain = _plain(pl.DataFrame(list(columns)))
    all_cells: Cells = _dicts(plain, [column.name for column in result])
    if NOTIFY in rows.columns:
        wanted = rows[NOTIFY].to_list()
        all_cells = [cells if told else None for cells, told in zip(all_cells, wanted, strict=True)]
    found: dict[int, Cells] = {}
    begin = 0
    for place, outcome in calculated:
        found[place] = all_cells[begin : begin + outcome.count]
        begin += outcome.count
        if NOTIFY in rows.columns and not found[place]:
            found[place] = [None]  # a condition over no row is not met
    return found


def _with_results(base: dict[str, object], cells: Cells | None) -> list[dict[str, object]]:
    """One object per result row; a single one without a result if there is no row or nothing was
    calculated."""
    if not cells:
        return [base]
    told = [row for row in cells if row is not None]
    if len(told) == 1:
        base["result"] = told[0]
        return [base]
    return [base | {"result": row, "resultIndex": place} for place, row in enumerate(told)]
