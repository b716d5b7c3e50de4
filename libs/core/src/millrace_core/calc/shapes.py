"""The shapes that an event's notification may have: the names of its fields, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace_core.model.stream import NoticeShape, StreamSpec


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
