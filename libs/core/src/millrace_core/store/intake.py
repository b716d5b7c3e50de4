"""Takes the WAL messages of one table into its rows and its family, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.revisions import carry, revision_of, revisions
from millrace_core.model.schema import Child
from millrace_core.store.family import Family, TagReader, Tags
from millrace_core.store.place import partition_and_offset
from millrace_core.store.rows import TableRows
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire.operations import Delete, Drop, Operation, Register, Retag
from millrace_core.wire.reading import name_of
from millrace_core.wire.rows.decoded import Bad, Decoded
from millrace_core.wire.rows.revisions import TableDecoder


@dataclass(slots=True)
class Taken:
    """``rows`` written, ``children`` that registered themselves, ``bad`` messages by index."""

    rows: int = 0
    children: list[Child] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Barrier:
    """From this message on, the member's earlier rows with ``first <= ts <= last`` are gone."""

    message: int
    number: int
    first: int
    last: int


class Intake:
    """Decodes and applies messages; for the second, the caller holds the table's lock."""

    def __init__(self, family: Family, rows: TableRows) -> None:
        self._family, self._rows = family, rows
        self._decoder = TableDecoder(family.table)
        self._tags = [TagReader(table) for table in revisions(family.table)]

    def decode(self, values: Sequence[bytes | None], places: Ints) -> Decoded:
        """What messages hold; ``places``: where each stands in the log (:func:`nowhere`: in none). This takes
        longest, and reads nothing that changes."""
        return self._decoder.decode(values, *partition_and_offset(places))

    def apply(self, keys: Sequence[bytes | None], decoded: Decoded, places: Ints) -> Taken:
        """Apply messages with these keys in order. A bad message is reported and changes nothing."""
        taken = Taken(bad=list(decoded.bad))
        versions = revision_of(self._family.table, *partition_and_offset(places))
        numbers, barriers = self._resolve(keys, decoded, versions, taken)
        of_rows = numbers[decoded.message]
        self._append(decoded, of_rows, places[decoded.message], barriers)
        taken.rows = int(np.count_nonzero(of_rows >= 0))
        return taken

    def _resolve(
        self, keys: Sequence[bytes | None], decoded: Decoded, versions: Ints, taken: Taken
    ) -> tuple[np.ndarray, list[_Barrier]]:
        """The member that each message belongs to at its place in the log (-1: not to be used), and the
        deletes among the messages."""
        operations: dict[int, Operation] = dict(decoded.operations)
        if not operations and (numbers := self._known(keys)) is not None:
            numbers[[bad.index for bad in taken.bad]] = -1
            return numbers, []
        unusable = {bad.index for bad in taken.bad}
        with_rows = set(np.unique(decoded.message).tolist())
        numbers = np.full(len(keys), -1, dtype=np.int32)
        barriers: list[_Barrier] = []
        known, own = self._family.numbers, self._family.table.name
        for index, key in enumerate(keys):
            if index in unusable:
                continue
            try:
                name = self._name(key)
                if index in operations:
                    self._operate(index, name, operations[index], int(versions[index]), taken, barriers)
                number = known.get(name, -1)
                if number < 0 and index in with_rows:
                    raise WireError(ErrorCode.UNKNOWN_TABLE, f"{own} has no child table {name}")
                numbers[index] = number
            except WireError as error:
                taken.bad.append(Bad(index, error))
        return numbers, barriers

    def _name(self, key: bytes | None) -> str:
        """The name of the member that a message's key stands for. :raises WireError: for a key that names
        none."""
        table = self._family.table
        if key is None and table.kind == "super":
            raise WireError(
                ErrorCode.UNKNOWN_TABLE,
                f"the message has no key: the key must name a child table of {table.name}",
            )
        return table.name if key is None else name_of(key)

    def _known(self, keys: Sequence[bytes | None]) -> np.ndarray | None:
        """Each message's member if all are known, which is the usual case; otherwise None. Each key is looked
        up once, however many messages have it."""
        known = self._family.numbers
        try:
            members = {key: known[self._name(key)] for key in set(keys)}
        except (WireError, KeyError):
            return None
        return np.fromiter(map(members.__getitem__, keys), dtype=np.int32, count=len(keys))

    def _operate(
        self, index: int, name: str, operation: Operation, version: int, taken: Taken,
        barriers: list[_Barrier],
    ) -> None:  # fmt: skip
        family = self._family
        match operation:
            case Register(tags=tags, incarnation=incarnation):
                child = Child(
                    family.table.db, family.table.name, name, self._read_tags(tags, version),
                    max(incarnation, family.next_incarnation(name)), version=family.table.version,
                )  # fmt: skip
                known = name in family.numbers and name not in family.untold
                if not known and family.register(child) is not None:
                    taken.children.append(child)
            case Retag(tags=tags):
                if name not in family.numbers:
                    raise WireError(ErrorCode.UNKNOWN_TABLE, f"{family.table.name} has no child table {name}")
                family.retag(name, self._read_tags(tags, version))
            case Drop():
                number = family.drop(name)
                if number is not None:
                    barriers.append(_Barrier(index, number, LOWEST, HIGHEST))
            case Delete(first=first, last=last):
                number = family.numbers.get(name)
                if number is None:
                    raise WireError(ErrorCode.UNKNOWN_TABLE, f"{family.table.name} has no child table {name}")
                barriers.append(_Barrier(index, number, first, last))

    def _read_tags(self, tags: Mapping[str, object], version: int) -> Tags:
        """Converts tags that are named by an earlier definition of the table to the present one."""
        reader = self._tags[version]
        return carry(reader.read(tags), reader.table.tags, self._family.table.tags)

    def _append(self, decoded: Decoded, of_rows: np.ndarray, places: Ints, barriers: list[_Barrier]) -> None:
        begin = 0
        for barrier in barriers:
            end = int(np.searchsorted(decoded.message, barrier.message))
            self._append_part(decoded, of_rows, places, begin, end)
            self._rows.delete(barrier.number, barrier.first, barrier.last)
            begin = end
        self._append_part(decoded, of_rows, places, begin, len(of_rows))

    def _append_part(self, decoded: Decoded, of_rows: np.ndarray, places: Ints, begin: int, end: int) -> None:
        if begin == end:
            return
        part = slice(begin, end)
        child, data, place = of_rows[part], decoded.frame[part], places[part]
        absent = {name: mask[part] for name, mask in decoded.absent.items()}
        used = child >= 0
        if not used.all():
            keep = np.flatnonzero(used)
            child, data, place = child[keep], data[keep], place[keep]
            absent = {name: mask[keep] for name, mask in absent.items()}
        self._rows.append(child, data, absent, place)
