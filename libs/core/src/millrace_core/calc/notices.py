"""From a stream's outcomes to its notifications: the seeds' JSON objects, as text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from millrace_core.calc.cells import json_rows, json_text, plain
from millrace_core.calc.conversion import rescaled
from millrace_core.calc.outcome import NOTIFY, Outcome, rows_of
from millrace_core.calc.results import EVENT_TYPES, event_type
from millrace_core.model.stream import EventType, NoticeShape, ResultColumn, StreamSpec
from millrace_core.model.sub_tables import sub_table
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import Group, TriggerEvent
from millrace_core.wire.notices import NoticeText


@dataclass(frozen=True, slots=True)
class Shape:
    """``id``, ``type``: the names of the fields for the event's id and for the trigger's type. ``types``:
    what a type is called, if not by its own name. ``invalid_with_close``: WINDOW_INVALIDATION goes only to
    those who asked for WINDOW_CLOSE; otherwise to all. ``names_table``: ``tableName`` is given even if
    nothing is stored."""

    id: str
    type: str
    types: Mapping[str, str] = field(default_factory=dict)
    invalid_with_close: bool = False
    names_table: bool = False


SHAPES: dict[NoticeShape, Shape] = {
    "trigger": Shape("triggerId", "triggerType"),
    "window": Shape(
        "windowId", "windowType", {"Interval": "Time"}, invalid_with_close=True, names_table=True
    ),
}
"""Seed 000 has the first, seed 002 the second."""


def shape_of(spec: StreamSpec) -> Shape:
    return SHAPES[spec.notices]


Begin = Callable[[TriggerEvent], str]
"""The object of an event as text, without what depends on the result and without the closing brace."""


def notices(
    spec: StreamSpec, result: Sequence[ResultColumn], events: Sequence[tuple[TriggerEvent, Outcome | None]],
    table_name: Callable[[Group], str | None], factor: tuple[int, int], times: tuple[int, int] = (1, 1),
    met: Sequence[bool] | None = None,
) -> list[NoticeText]:  # fmt: skip
    """The notifications of these events, in order.

    ``factor`` converts window times, ``times`` the times in results: both are given in the output table's
    precision. ``met``: whether each event meets NOTIFY's WHERE, if that has constants only (``plan.notify``).
    """
    found: list[NoticeText] = []
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
    rows = _result_rows(result, events, times)
    stream, pause = spec.full_name, spec.notify is not None and spec.notify.pause_on_failure
    to = {kind: _urls(spec, kind) for kind in EVENT_TYPES.values()}
    begin_of = _begins(spec, factor)
    known: dict[tuple[int, EventType], tuple[str, Begin]] = {}  # thousands of events belong to a few groups
    for place, (event, _) in enumerate(events):
        kind, id_ = event_type(event), event.group.id
        if (id_, kind) not in known:
            known[id_, kind] = str(id_), begin_of(event.group, kind, table_name(event.group))
        group, begin = known[id_, kind]
        found += [
            NoticeText(stream, group, msgspec.Raw(text), to[kind], pause)
            for text in _with_results(begin(event), rows.get(place))
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


def _begins(spec: StreamSpec, factor: tuple[int, int]) -> Callable[[Group, EventType, str | None], Begin]:
    """Makes, for a group, a type of events and the name of the group's table, what writes the beginning of
    each of these events."""
    type_, shape = type_of(spec.trigger), shape_of(spec)
    called, (up, down) = shape.types.get(type_.name, type_.name), factor
    window = type_.window

    def begin_of(group: Group, kind: EventType, table: str | None) -> Begin:
        if table is None and shape.names_table:
            table = sub_table(spec.name, group.id)
        named = "" if table is None else f'"tableName":{json_text(table)},'
        first = f'{{{named}"eventType":{json_text(kind)},"eventTime":'
        second = f",{json_text(shape.id)}:"
        third = f',{json_text(shape.type)}:{json_text(called)},"groupId":{json_text(str(group.id))}'
        ends = kind != "WINDOW_OPEN"

        def begin(event: TriggerEvent) -> str:
            text = f"{first}{milliseconds(event.localtime)}{second}{json_text(event.id)}{third}"
            if window:
                text += f',"windowStart":{event.start * up // down}'
                if ends:
                    text += f',"windowEnd":{event.end * up // down}'
            return f"{text},{json_text(event.detail)[1:-1]}" if event.detail else text

        return begin

    return begin_of


Rows = Sequence[str | None]
"""The result rows of an event, as JSON text; None in place of one that NOTIFY's condition leaves out."""


def _result_rows(
    result: Sequence[ResultColumn], events: Sequence[tuple[TriggerEvent, Outcome | None]],
    times: tuple[int, int],
) -> dict[int, Rows]:  # fmt: skip
    """The result rows of each event, by its place in the list; all are written at once."""
    calculated = [
        (place, outcome)
        for place, (_, outcome) in enumerate(events)
        if outcome is not None and outcome.error is None
    ]
    if not calculated:
        return {}
    rows = rows_of([outcome for _, outcome in calculated])
    columns = (rescaled(rows[f"r{place}"], column, times) for place, column in enumerate(result))
    texts: Rows = json_rows(plain(pl.DataFrame(list(columns))), [column.name for column in result])
    conditional = NOTIFY in rows.columns
    if conditional:
        texts = [text if told else None for text, told in zip(texts, rows[NOTIFY].to_list(), strict=True)]
    found: dict[int, Rows] = {}
    begin = 0
    for place, outcome in calculated:
        end = begin + outcome.count
        # a condition over no row is not met
        found[place] = texts[begin:end] or ([None] if conditional else ())
        begin = end
    return found


def _with_results(begin: str, rows: Rows | None) -> list[str]:
    """One object per result row; a single one without a result if there is no row or nothing was
    calculated."""
    if not rows:
        return [begin + "}"]
    told = [row for row in rows if row is not None]
    if len(told) == 1:
        return [f'{begin},"result":{told[0]}}}']
    return [f'{begin},"result":{row},"resultIndex":{place}}}' for place, row in enumerate(told)]
