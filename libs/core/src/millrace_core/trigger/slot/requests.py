"""What a slot does for streams that recalculate: it passes records and deletes to the streams concerned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.stream.stream import Stream
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import control
from millrace_core.wire.control import Offsets
from millrace_core.wire.operations import Delete, Drop, operation_in
from millrace_core.wire.recalc import Taken

FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""The times of the rows that go with a dropped child: all."""


def on_record(
    record: control.AnyControl, streams: Mapping[int, AnyStream], seen: Mapping[str, Offsets],
    taken: Mapping[str, Taken], at: int, family: Callable[[str], Family],
) -> Iterator[Output]:  # fmt: skip
    """A control record has come into force at ``at`` (ns). ``seen``: what the slot has seen, by topic;
    ``taken``: what has come from the sources of virtual tables; ``family``: the tables of a topic."""
    match record:
        case control.StopStream(uid=uid) | control.StartStream(uid=uid) | control.RecalculateStream(uid=uid):
            stream = streams.get(uid)
        case _:
            return
    if not isinstance(stream, Stream) or stream.life.gone:
        return
    topic = stream.definition.topic
    mine = seen.get(topic, {})
    match record:
        case control.StopStream(origins=origins):
            stream.stop(mine, origins, taken.get(topic, {}))
        case control.StartStream(untreated=untreated, origins=origins):
            yield from stream.catch_up(untreated, origins, at, family(topic))
        case control.RecalculateStream(first=first, last=last):
            yield from stream.recalculate(first, last, mine, at)


def deletes_in(streams: Sequence[AnyStream], messages: Messages) -> list[tuple[int, tuple[int, int]]]:
    """The messages that delete rows, and the times of these rows, if any stream wants to know
    (DELETE_RECALC)."""
    if not any(stream.definition.spec.options.delete_recalc for stream in streams):
        return []
    found = []
    for place, value in enumerate(messages.value):
        match operation_in(value):
            case Delete(first=first, last=last):
                found.append((place, (first, last)))
            case Drop():
                found.append((place, (FIRST, LAST)))
    return found


def delete(
    stream: AnyStream, messages: Messages, place: int, span: tuple[int, int],
    wanted: Mapping[int, Any], seen: Offsets, family: Family,
) -> Iterator[Output]:  # fmt: skip
    """Tell a stream that this message deletes rows, if the stream takes the message."""
    name = messages.key_of(place)
    if not isinstance(stream, Stream) or not stream.definition.spec.options.delete_recalc:
        return
    key = name if name is not None else stream.definition.table.name.encode()
    written = int(messages.timestamp[place])
    if stream.uid in wanted and wanted[stream.uid][place]:
        yield from stream.delete(key, span, written, seen, family)
    elif stream.missed(messages)[place]:
        yield from stream.delete(key, span, written, seen, family, missed=True)


def heeds_changes(stream: AnyStream) -> TypeGuard[Stream]:
    """Whether deletes and rewriting rows concern the stream even when they come while it is stopped."""
    return isinstance(stream, Stream) and not stream.life.gone and bool(stream.life.missed_from)


def missed_by(streams: Sequence[AnyStream], messages: Messages) -> dict[int, Any]:
    """By stream, bool[messages]: those that came while it was stopped, if the rows in them may have left the
    groups in which they were evaluated."""
    found: dict[int, Any] = {}
    for stream in streams:
        if heeds_changes(stream) and stream.definition.loses_rewritten:
            mask = stream.missed(messages)
            if mask.any():
                found[stream.uid] = mask
    return found
