"""The kinds of streams that a slot hosts."""

from __future__ import annotations

from collections.abc import Sequence

from millrace_core.model.schema import Table
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.stream.definition import compiled
from millrace_core.trigger.stream.period import PeriodStream
from millrace_core.trigger.stream.stream import Stream

AnyStream = Stream | PeriodStream


def hosted(definition: bytes) -> type[Stream] | type[PeriodStream]:
    """The class that keeps a stream of this definition in a slot."""
    return Stream if compiled(definition).schedule is None else PeriodStream


def signals_of(streams: Sequence[AnyStream], table: Table) -> list[tuple[Table, list[Signal]]]:
    """What the streams read from a row, by the definition of the table whose column names they use. Usually
    all use the table as it is, which gives one entry."""
    found: dict[Table, dict[Signal, None]] = {}
    for stream in streams:
        found.setdefault(stream.definition.table, {}).update(dict.fromkeys(stream.definition.signals))
    return [(words, list(signals)) for words, signals in found.items()] or [(table, [])]
