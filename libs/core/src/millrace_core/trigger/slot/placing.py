"""Which messages of a table a slot must look at, and to which group of each stream they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millrace_core.errors import WireError
from millrace_core.model.schema import Table
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.watermark import Bools
from millrace_core.trigger.rows.intake import Messages, TableRows, members_of, of_each, present, read
from millrace_core.trigger.slot.blame import Blame
from millrace_core.trigger.slot.hosted import AnyStream, signals_of
from millrace_core.wire.operations import OPERATION_MARK, Operation, Register
from millrace_core.wire.reading import name_of

Tags = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Names:
    """The tables that messages belong to: ``name`` holds, for each message, the place of its table in
    ``names``."""

    names: list[bytes]
    name: Ints

    @staticmethod
    def of_messages(messages: Messages, table: Table) -> Names:
        """The tables named by the messages' keys. A normal table's messages may have no key; a super table's
        message without a key belongs to no table."""
        own = table.name.encode() if table.kind == "normal" else b""
        return Names([own if key is None else key for key in messages.keys], messages.key)

    def of(self, place: int) -> bytes:
        return self.names[int(self.name[place])]

    def of_each(self) -> list[bytes]:
        return of_each(self.names, self.name)

    def only(self, wanted: Bools) -> Names:
        return Names(self.names, self.name[wanted])


def with_operations(streams: list[AnyStream], messages: Messages, wanted: list[Any]) -> Any:
    """bool[messages]: the wanted ones, and those that say which children exist."""
    needed = np.zeros(len(messages), dtype=bool)
    for mask in wanted:
        needed |= mask
    singles = {stream.definition.single for stream in streams}
    others = ~needed
    if None not in singles and others.any():
        others &= messages.keyed({name.encode() for name in singles if name})
    for place in np.flatnonzero(others).tolist():
        value = messages.value[place] or b""
        first = value[:1]
        needed[place] = first == OPERATION_MARK or (first == b"{" and b'"tags"' in value)
    return needed


def read_for(live: list[AnyStream], table: Table, messages: Messages, blame: Blame) -> dict[Table, TableRows]:
    """The rows of messages with all that these streams read from them, under the column names of each
    stream's table."""
    words_of = signals_of(live, table)
    try:
        return {words: read(table, messages, signals, words) for words, signals in words_of}
    except Exception:
        # the streams read together: find out whose condition raises
        for stream in live:
            with blame.of(stream.uid):
                read(table, messages, stream.definition.signals, stream.definition.table)
        raise


def describe(
    live: list[AnyStream], read_as: Mapping[Table, TableRows], table: Table, names: Names,
    tags: Sequence[Tags], blame: Blame,
) -> None:  # fmt: skip
    """Compute what streams read of the tables that rows belong to; ``tags``: those of each message's
    table."""
    each = names.of_each()
    members = {words: members_of(table, words, each, tags) for words in read_as}
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
    streams: list[AnyStream], takes: dict[int, Any], names: Names,
    operations: list[tuple[int, Operation, list[AnyStream]]],
    family: Family, table: Table, tags: list[Tags] | None, blame: Blame,
) -> dict[int, Any]:  # fmt: skip
    """Each live stream's group of each message that it takes, -1 for others and unknown tables.

    Operations take effect at their place among the messages. Each comes with the streams that are told of it:
    all of them, unless it has come before. ``tags`` is filled with the tags of each message's table (None:
    not known).
    """
    live = [stream for stream in streams if stream.uid in takes]
    places = {stream.uid: np.full(len(names.name), -1, dtype=np.int64) for stream in live}

    def place_between(begin: int, end: int) -> None:
        part = Names(names.names, names.name[begin:end])
        for stream in live:
            with blame.of(stream.uid):
                mine = takes[stream.uid][begin:end]
                places[stream.uid][begin:end][mine] = _places(stream, part.only(mine), family)
        if tags is not None:
            tags.extend(map(family.tags.get, part.of_each()))

    begin = 0
    for at, operation, told in operations:
        place_between(begin, at)
        begin, name = at, names.of(at)
        if not _names_a_table(name):
            continue
        ended = family.apply(name, operation, table, again=told is not streams)
        for stream in told:
            with blame.of(stream.uid):
                if ended:
                    stream.part(name)
                if isinstance(operation, Register):
                    stream.meet(name, family)
    place_between(begin, len(names.name))
    return places


def _names_a_table(key: bytes) -> bool:
    try:
        return bool(name_of(key))
    except WireError:
        return False


def _places(stream: AnyStream, tables: Names, family: Family) -> Ints:
    """The stream's group of each message of these tables."""
    index, names = stream.places.index, tables.names
    some = present(tables.name)
    if not all(names[place] in index for place in some.tolist()):
        # groups are created in the order in which their tables' messages come
        _, first = np.unique(tables.name, return_index=True)
        for place in some[np.argsort(first)].tolist():
            stream.place(names[place], family)
    group = np.empty(len(names), dtype=np.int64)
    group[some] = [index.get(names[place], -1) for place in some.tolist()]
    return group[tables.name]
