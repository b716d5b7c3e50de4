"""Which messages of a table a slot must look at, and to which group of each stream they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from millrace_core.model.schema import Table
from millrace_core.trigger.blame import Blame
from millrace_core.trigger.family import Family
from millrace_core.trigger.intake import Messages, TableRows, members_of, read
from millrace_core.trigger.stream import Stream, signals_of
from millrace_core.wire.operations import OPERATION_MARK, Operation, Register

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
            first = value[:1]
            needed[place] = first == OPERATION_MARK or (first == b"{" and b'"tags"' in value)
    return needed


def read_for(live: list[Stream], table: Table, messages: Messages, blame: Blame) -> dict[Table, TableRows]:
    """The rows of messages with all that these streams read of them, in the words of each stream's table."""
    words_of = signals_of(live, table)
    try:
        return {words: read(table, messages, signals, words) for words, signals in words_of}
    except Exception:
        # they read together: find out whose condition it is
        for stream in live:
            with blame.of(stream.uid):
                read(table, messages, stream.definition.signals, stream.definition.table)
        raise


def describe(
    live: list[Stream], read_as: Mapping[Table, TableRows], table: Table, names: Sequence[bytes],
    tags: Sequence[Tags], blame: Blame,
) -> None:  # fmt: skip
    """Compute what streams read of the tables that rows are of; ``tags``: of each message's table."""
    members = {words: members_of(table, words, names, tags) for words in read_as}
    try:
        for words, part in read_as.items():
            part.describe(members[words])
    except Exception:
        for stream in live:
            rows = read_as[stream.definition.table]
            mine = [signal for signal in rows.pending if signal in stream.definition.signals]
            with blame.of(stream.uid):
                replace(rows, pending=mine, signals={}).describe(members[stream.definition.table])
        raise


def placed(
    streams: list[Stream], takes: dict[int, Any], names: list[bytes], operations: list[tuple[int, Operation]],
    family: Family, table: Table, tags: list[Tags] | None, blame: Blame,
) -> dict[int, Any]:  # fmt: skip
    """Each live stream's group of each message that it takes, -1 for others and unknown tables.

    Operations take effect between the messages that they lie between. ``tags``: filled with those of each
    message's table (None: not known).
    """
    taking = [stream for stream in streams if stream.uid in takes]
    live = [(stream, takes[stream.uid].tolist(), list[int | None]()) for stream in taking]

    def place_until(end: int) -> None:
        for stream, mine, places in live:
            with blame.of(stream.uid):
                places.extend(_places(stream, mine, names, (len(places), end), family))
        if tags is not None:
            tags.extend(family.tags.get(name) for name in names[len(tags) : end])

    for at, operation in operations:
        place_until(at)
        ended = family.apply(names[at], operation, table)
        for stream in streams:
            with blame.of(stream.uid):
                if ended:
                    stream.part(names[at])
                if isinstance(operation, Register):
                    stream.meet(names[at], family)
    place_until(len(names))
    return {stream.uid: np.array(places, dtype=np.int64) for stream, _, places in live}


def _places(
    stream: Stream, takes: list[bool], names: list[bytes], span: tuple[int, int], family: Family
) -> list[int | None]:
    """The stream's group of each message from ``span[0]`` up to ``span[1]``."""
    index, (begin, end) = stream.places.index, span
    mine = takes[begin:end]
    if all(mine):
        known = list(map(index.get, names[begin:end] if begin or end < len(names) else names))
        if None not in known:
            return known
    found: list[int | None] = [-1] * (end - begin)
    for i in compress(range(begin, end), mine):
        place = index.get(names[i])  # a message before this one may have made it
        found[i - begin] = stream.place(names[i], family) if place is None else place
    return found
