"""Plans of streams: the calculation, the relation of its triggers, the output tables' names and tags."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from sqlglot import exp

from millrace_core.catalog import Catalog, Definitions
from millrace_core.errors import ErrorCode, MillraceError, Position, SqlError
from millrace_core.language.lexer import quote_name
from millrace_core.language.query import parse_expression, parse_query
from millrace_core.language.query.nodes import START, position_at
from millrace_core.model.schema import Precision
from millrace_core.model.stream import Piece, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import BIGINT, TIMESTAMP
from millrace_core.plan.model import Plan
from millrace_core.plan.query import plan, seen_of
from millrace_core.plan.scope import Context, TimeBounds
from millrace_core.plan.types.typed import TBNAME, Typed, with_type
from millrace_core.trigger.types import trigger_types, type_of
from millrace_core.trigger.types.moment import Value
from millrace_core.wire.events import TriggerEvent
from millrace_core.wire.rows.decoded import polars_type

SHARED = ("_tgrpid", "_tlocaltime")
"""Placeholders of every trigger type; they are columns of the trigger relation."""


def allowed_placeholders(spec: StreamSpec) -> dict[str, Typed]:
    """The placeholders that a stream of this trigger and grouping has, with their types (seed 000)."""
    precision = _precision(spec)
    found = {"_tgrpid": Typed(BIGINT), "_tlocaltime": Typed(TIMESTAMP, "ns")}
    for one in type_of(spec.trigger).moment.placeholders:
        ticks: Precision = "ns" if one.in_ns else precision
        found[one.name] = Typed(one.type, ticks if one.type == TIMESTAMP else None)
    for i, grouping in enumerate(grouping_types(spec), 1):
        found[f"%%{i}"] = grouping
    if "tbname" in spec.partition:
        found["%%tbname"] = Typed(TBNAME)
    return found


def _precision(spec: StreamSpec) -> Precision:
    return spec.source.table.precision if spec.source else "ms"


def grouping_types(spec: StreamSpec) -> list[Typed]:
    """The types of a group's key: those of the grouping columns, then those of the keys that divide
    their rows."""
    found: list[Typed] = []
    for name in spec.partition:
        tag = spec.source.table.tag(name) if spec.source else None
        type_ = TBNAME if tag is None else tag.type
        found.append(Typed(type_, _precision(spec) if type_ == TIMESTAMP else None))
    found += [Typed(key.type, _precision(spec) if key.type == TIMESTAMP else None) for key in spec.keys]
    return found


def trows_bounds(trigger: Trigger) -> TimeBounds:
    """The times that tell which of a group's rows are the trigger's; without bounds, the log tells."""
    moment = type_of(trigger).moment
    begin, end = moment.begin, moment.end
    return (
        [] if begin is None else [(begin[0], ("ref", begin[1]))],
        [] if end is None else [(end[0], ("ref", end[1]))],
    )


def trows_condition(spec: StreamSpec) -> str | None:
    """What the rows of ``%%trows`` must meet besides their times: PRE_FILTER, that the trigger counts them,
    and that their keys are those of the group."""
    conditions = [f"({spec.options.pre_filter.sql})"] if spec.options.pre_filter else []
    if columns := type_of(spec.trigger).counted(spec.trigger):
        counted = " OR ".join(f"{quote_name(name)} IS NOT NULL" for name in columns)
        conditions.append(f"({counted})")
    for place, key in enumerate(spec.keys, len(spec.partition) + 1):
        same = f"({key.sql}) = %%{place}"
        conditions.append(f"({same} OR (({key.sql}) IS NULL AND %%{place} IS NULL))")
    return " AND ".join(conditions) or None


def plan_stream(spec: StreamSpec, definitions: Definitions) -> Plan:
    """Plan the stream's calculation. The ``definitions`` are asked once, for what its query names.

    :raises SqlError: with the place in the CREATE STREAM statement.
    """
    if spec.query is None:
        raise SqlError(ErrorCode.BAD_STREAM, f"the stream {spec.full_name} has no query")
    pieces = spec.places.pieces
    try:
        tree = parse_query(spec.query, START if pieces else spec.places.query or START)
        seen = seen_of(definitions, tree, spec.database or spec.db)
        ctx = context_of(spec, seen)
        where = spec.notify.where if spec.notify else None
        ctx.notify = parse_expression(where, spec.places.where or START) if where else None
        return plan(tree, ctx)
    except MillraceError as error:
        if not pieces or error.position is None:
            raise
        place = _place(spec.query, error.position, pieces)
        raise type(error)(error.code, error.message, place or spec.places.query) from error


def _place(query: str, position: Position, pieces: Sequence[Piece]) -> Position | None:
    """Where in the statement the character stands that is at ``position`` in the query."""
    lines = query.split("\n")[: position.line - 1]
    offset = sum(map(len, lines)) + len(lines) + position.column - 1
    piece = next((one for one in reversed(pieces) if one.begin <= offset), None)
    if piece is None:
        return None
    inside = offset - piece.begin if offset < piece.end else 0
    return position_at(query[piece.begin : piece.end], inside, piece.place)


def context_of(spec: StreamSpec, catalog: Catalog) -> Context:
    """The context of a stream's query: ``now`` is the moment of the trigger, so that repeated
    calculations agree."""
    precision = _precision(spec)
    database = spec.database or spec.db
    if spec.source is None and database in catalog.databases:
        precision = catalog.databases[database].precision
    now = exp.Cast(this=exp.Placeholder(this="_tlocaltime"), to=exp.DataType.build("BIGINT"))
    return Context(
        catalog=catalog,
        database=database,
        timezone=spec.timezone,
        precision=precision,
        now=with_type(now, BIGINT),
        placeholders=allowed_placeholders(spec),
        partition=spec.partition,
        source=spec.source,
        trows=trows_bounds(spec.trigger),
        trows_written=type_of(spec.trigger).by_clock,
        pre_filter=trows_condition(spec),
        force_output=spec.options.force_output,
    )


def trigger_relation(spec: StreamSpec, events: Sequence[TriggerEvent]) -> pl.DataFrame:
    """The relation ``_trig``: one row per event; ``_tid`` (int32) is the event's index.

    ``_tgrpid``, ``_tlocaltime`` (ns), the placeholders of the trigger type (others NULL), the grouping
    columns' values ``_g1`` …, and ``_tbname`` (the group's table, NULL where it is not one table).
    """
    moment = type_of(spec.trigger).moment
    values: dict[str, Value] = {"_tgrpid": lambda event: event.group.id, "_tlocaltime": moment.localtime}
    values |= {one.name: one.of for one in moment.placeholders}
    data: dict[str, pl.Series] = {"_tid": pl.Series(range(len(events)), dtype=pl.Int32)}
    null = pl.Series([None] * len(events), dtype=pl.Int64)
    for name in columns():
        take = values.get(name)
        data[name] = pl.Series([take(event) for event in events], dtype=pl.Int64) if take else null
    for i, type_ in enumerate(grouping_types(spec)):
        data[f"_g{i + 1}"] = pl.Series(
            [event.group.key[i] for event in events], dtype=polars_type(type_.type)
        )
    data["_tbname"] = pl.Series([event.group.table for event in events], dtype=pl.String)
    return pl.DataFrame(data)


def columns() -> tuple[str, ...]:
    """The columns of every stream's trigger relation, except ``_tid``; NULL where the stream has no
    such value."""
    names = [one.name for known in trigger_types() for one in known.moment.placeholders]
    return tuple(dict.fromkeys((*SHARED, *names)))
