"""From a stream's outcomes to its notifications: the seeds' JSON objects, as text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from millrace_core.calc.cells import Cells, joined, json_rows, json_text, json_texts, plain
from millrace_core.calc.conversion import rescaled
from millrace_core.calc.outcome import NOTIFY, Outcome, rows_of
from millrace_core.calc.results import EVENT_TYPES
from millrace_core.model.stream import EventType, NoticeShape, ResultColumn, StreamSpec
from millrace_core.model.sub_tables import sub_table
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import EventKind, Group, TriggerEvent
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


Calculated = Sequence[tuple[TriggerEvent, Outcome | None]]
"""Events, each with what was calculated for it, if anything."""


@dataclass(frozen=True, slots=True)
class Same:
    """What is the same for all events of a group and a type. ``first``: their object as text, up to the
    event's time."""

    group: str
    urls: tuple[str, ...]
    first: str


def notices(
    spec: StreamSpec, result: Sequence[ResultColumn], events: Calculated,
    table_name: Callable[[Group], str | None], factor: tuple[int, int], times: tuple[int, int] = (1, 1),
    met: Sequence[bool] | None = None,
) -> list[NoticeText]:  # fmt: skip
    """The notifications of these events, in order.

    ``factor`` converts window times, ``times`` the times in results: both are given in the output table's
    precision. ``met``: whether each event meets NOTIFY's WHERE, if that has constants only (``plan.notify``).
    """
    events = _told(spec, events, met)
    results = _one_row_each(result, events, times)
    if results is None:
        rows = _result_rows(result, events, times)
        lines = [(one, text) for place, one in enumerate(events) for text in _results(rows.get(place))]
        events, results = [one for one, _ in lines], [[text for _, text in lines]]
    same_of, known = _sames(spec), dict[tuple[int, EventKind], Same]()  # thousands of events, a few groups
    keys = [(event.group.id, event.kind) for event, _ in events]
    for key, (event, _) in zip(keys, events, strict=True):
        if key not in known:
            known[key] = same_of(event, table_name(event.group))
    sames = list(map(known.__getitem__, keys))
    texts = _texts(spec, [event for event, _ in events], sames, results, factor)
    stream, pause = spec.full_name, spec.notify is not None and spec.notify.pause_on_failure
    return [
        NoticeText(stream, same.group, msgspec.Raw(text), same.urls, pause)
        for same, text in zip(sames, texts, strict=True)
    ]


def _told(spec: StreamSpec, events: Calculated, met: Sequence[bool] | None) -> Calculated:
    """Those of the events that somebody is told of."""
    told = set(spec.options.event_types) | {"ON_TIME", "WINDOW_INVALIDATION"}
    if spec.notify:
        told |= set(spec.notify.events)
    kinds = {kind for kind, type_ in EVENT_TYPES.items() if type_ in told}
    # MAX_DELAY calculates what there is so far: the window is still open
    silent = {"DELAY"} if spec.notify and spec.notify.history else {"DELAY", "HISTORY"}
    over_columns = spec.notify is not None and spec.notify.where is not None and met is None
    return [
        (event, outcome)
        for place, (event, outcome) in enumerate(events)
        if event.kind in kinds
        and event.cause not in silent
        and (not over_columns if outcome is None else outcome.error is None)
        and (met is None or met[place])
    ]


def _urls(spec: StreamSpec, kind: EventType) -> tuple[str, ...]:
    if spec.notify is None:
        return ()
    # ON is ignored for SLIDING and PERIOD
    always = kind in ("ON_TIME", "WINDOW_INVALIDATION")
    if kind == "WINDOW_INVALIDATION" and shape_of(spec).invalid_with_close:
        always = "WINDOW_CLOSE" in spec.notify.events
    return spec.notify.urls if always or kind in spec.notify.events else ()


def _sames(spec: StreamSpec) -> Callable[[TriggerEvent, str | None], Same]:
    """Makes, from one event and the name of its group's table, what is the same for all like it."""
    shape = shape_of(spec)
    to = {kind: _urls(spec, type_) for kind, type_ in EVENT_TYPES.items()}
    typed = {kind: f'"eventType":{json_text(type_)},"eventTime":' for kind, type_ in EVENT_TYPES.items()}

    def same_of(event: TriggerEvent, table: str | None) -> Same:
        kind, id_ = event.kind, event.group.id
        if table is None and shape.names_table:
            table = sub_table(spec.name, id_)
        named = "" if table is None else f'"tableName":{json_text(table)},'
        return Same(str(id_), to[kind], f"{{{named}{typed[kind]}")

    return same_of


def _texts(
    spec: StreamSpec, events: Sequence[TriggerEvent], sames: Sequence[Same], results: Sequence[Cells],
    factor: tuple[int, int],
) -> list[str]:  # fmt: skip
    """The object of each event as text. ``results``: the fields of its result, as columns."""
    type_, shape = type_of(spec.trigger), shape_of(spec)
    called = json_text(shape.types.get(type_.name, type_.name))
    columns: list[Cells] = [
        [same.first for same in sames], [milliseconds(event.localtime) for event in events],
        f",{json_text(shape.id)}:", json_texts([event.id for event in events]),
        f',{json_text(shape.type)}:{called},"groupId":"', [same.group for same in sames], '"',
    ]  # fmt: skip
    if type_.window:
        up, down = factor
        columns += [',"windowStart":', [event.start * up // down for event in events]]
        columns.append([
            "" if event.kind == "OPEN" else f',"windowEnd":{event.end * up // down}' for event in events
        ])  # fmt: skip
    if any(event.detail for event in events):
        columns.append([f",{json_text(event.detail)[1:-1]}" if event.detail else "" for event in events])
    return joined(len(events), [*columns, *results, "}"])


def _one_row_each(
    result: Sequence[ResultColumn], events: Calculated, times: tuple[int, int]
) -> list[Cells] | None:
    """The fields of each event's result as columns, if there is one row for each and no condition: as with
    thousands of windows. Otherwise None."""
    outcomes = [outcome for _, outcome in events if outcome is not None]
    if len(outcomes) != len(events) or not outcomes:
        return None
    if any(outcome.error is not None or outcome.count != 1 for outcome in outcomes):
        return None
    if NOTIFY in outcomes[0].found.columns:  # as in all of them: one plan gave them
        return None
    return [',"result":', _row_texts(result, rows_of(outcomes), times)]


def _row_texts(result: Sequence[ResultColumn], rows: pl.DataFrame, times: tuple[int, int]) -> list[str]:
    columns = (rescaled(rows[f"r{place}"], column, times) for place, column in enumerate(result))
    return json_rows(plain(pl.DataFrame(list(columns))), [column.name for column in result])


Rows = Sequence[str | None]
"""The result rows of an event, as JSON text; None in place of one that NOTIFY's condition leaves out."""


def _result_rows(
    result: Sequence[ResultColumn], events: Calculated, times: tuple[int, int]
) -> dict[int, Rows]:
    """The result rows of each event, by its place in the list; all are written at once."""
    calculated = [
        (place, outcome)
        for place, (_, outcome) in enumerate(events)
        if outcome is not None and outcome.error is None
    ]
    if not calculated:
        return {}
    rows = rows_of([outcome for _, outcome in calculated])
    texts: Rows = _row_texts(result, rows, times)
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


def _results(rows: Rows | None) -> Sequence[str]:
    """The fields of an event's result, for each of its rows; empty for a single object if there is no row or
    nothing was calculated."""
    if not rows:
        return ("",)
    if len(rows) == 1:
        return () if rows[0] is None else (f',"result":{rows[0]}',)
    told = [row for row in rows if row is not None]
    if len(told) == 1:
        return (f',"result":{told[0]}',)
    return [f',"result":{row},"resultIndex":{place}' for place, row in enumerate(told)]
