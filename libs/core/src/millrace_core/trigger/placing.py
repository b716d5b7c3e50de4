"""Which messages of a table a slot must look at, and to which group of each stream they go."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace_core.model.schema import Table
from millrace_core.trigger.family import Family
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.stream import Stream
from millrace_core.wire.rows import OPERATION_MARK, Operation, Register

Tags = tuple[Any, ...] | None


def with_operations(streams: list[Stream], messages: Messages, wanted: list[Any]) -> Any:
    """bool[messages]: the wanted ones, and those that say which children there are."""
    needed = np.zeros(len(messages), dtype=bool)
    for mask in wanted:
        needed |= mask
    singles = {stream.definition.single for stream in streams}
    names = None if None in singles else {name.encode() for name in singles if name}
    for place in np.flatnonzero(~needed).tolist():
        if names is None or messages.key[place] in names:
            value = messages.value[place] or b""
            needed[place] = value[:1] == OPERATION_MARK or b'"tags"' in value
    return needed


def placed(
    streams: list[Stream], takes: dict[int, Any], names: list[bytes], operations: list[tuple[int, Operation]],
    family: Family, table: Table, tags: list[Tags] | None,
) -> dict[int, Any]:  # fmt: skip
    """Each live stream's group of each message that it takes, -1 for others and unknown tables.

    Operations take effect between the messages that they lie between. ``tags``: filled with those of each
    message's table (None: not known).
    """
    taking = [stream for stream in streams if stream.uid in takes]
    live = [(stream, takes[stream.uid].tolist(), list[int | None]()) for stream in taking]

    def place_until(end: int) -> None:
        for stream, mine, places in live:
            index = stream.places.index
            begin = len(places)
            part = names[begin:end] if begin or end < len(names) else names
            found = list(map(index.get, part))
            if None in found or not all(mine[begin:end]):
                for i, (name, take) in enumerate(zip(part, mine[begin:end], strict=True)):
                    if not take:
                        found[i] = -1
                    elif found[i] is None:
                        known = index.get(name)  # a message before this one may have made it
                        found[i] = stream.place(name, family) if known is None else known
            places.extend(found)
        if tags is not None:
            tags.extend(family.tags.get(name) for name in names[len(tags) : end])

    for at, operation in operations:
        place_until(at)
        ended = family.apply(names[at], operation, table)
        for stream in streams:
            if ended:
                stream.part(names[at])
            if isinstance(operation, Register):
                stream.meet(names[at], family)
    place_until(len(names))
    return {stream.uid: np.array(places, dtype=np.int64) for stream, _, places in live}
