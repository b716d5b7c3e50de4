"""The tables whose rows one WAL topic holds: the children of a super table, or the one normal table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import polars as pl

from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.revisions import carry, current
from millrace_core.model.schema import Child, Table
from millrace_core.model.types import TIMESTAMP
from millrace_core.store.run import Children
from millrace_core.wire.rows.decoded import polars_type
from millrace_core.wire.rows.decoder import RowDecoder

Tags = tuple[object, ...]
TBNAME = "tbname"


@dataclass(slots=True)
class Family:
    """Members by number, in the order in which they became known. A number is never used again: a child that
    was dropped and created anew is another member. ``tags`` are in the order of the table's tags."""

    table: Table
    names: list[str] = field(default_factory=list)
    tags: list[Tags] = field(default_factory=list)
    uids: list[int] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """Name -> number, for members that exist."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Name -> incarnation that was dropped last."""
    untold: set[str] = field(default_factory=set)
    """Members known only from stored rows: neither the catalog nor a registration has told of them."""
    _incarnations: dict[str, int] = field(default_factory=dict)
    _described: tuple[int, pl.DataFrame] | None = None
    _groups: dict[tuple[str, ...], dict[Tags, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.table.kind == "normal":
            self._enter(self.table.name, (), self.table.uid)

    def _enter(self, name: str, tags: Tags, uid: int) -> int:
        number = len(self.names)
        self.names.append(name)
        self.tags.append(tags)
        self.uids.append(uid)
        self.numbers[name] = number
        self._groups.clear()
        return number

    def register(self, child: Child) -> int | None:
        """Take in a child; None if it is already known, or has been dropped since (an old record)."""
        if self.table.kind == "normal" or child.incarnation <= self.dropped.get(child.name, -1):
            return None
        if child.name in self.untold:
            return self._tell(current(child, self.table))
        if child.name in self.numbers and child.incarnation <= self._incarnations[child.name]:
            return None
        self._incarnations[child.name] = child.incarnation
        child = current(child, self.table)
        return self._enter(child.name, child.tags, child.uid)

    def _tell(self, child: Child) -> int:
        """Complete a child whose rows are already here: they were stored before it could be registered."""
        number = self.numbers[child.name]
        self.untold.remove(child.name)
        self._incarnations[child.name], self.uids[number] = child.incarnation, child.uid
        self.retag(child.name, child.tags)
        return number

    def drop(self, name: str) -> int | None:
        """Forget a child; returns its number, or None if there is none of this name."""
        if self.table.kind == "normal":
            return self.numbers.get(name)
        number = self.numbers.pop(name, None)
        self.untold.discard(name)
        if number is not None:
            self.dropped[name] = self._incarnations[name]
            self._groups.clear()
        return number

    def stored(self, name: str) -> int:
        """The number of a table whose rows are stored; one that was never registered has no tags."""
        known = self.numbers.get(name)
        if known is not None:
            return known
        child = Child(self.table.db, self.table.name, name, (None,) * len(self.table.tags))
        self._incarnations[name] = 0
        self.untold.add(name)
        return self._enter(name, child.tags, child.uid)

    def retag(self, name: str, tags: Tags) -> None:
        """A child that exists has these tags from now on."""
        self.tags[self.numbers[name]] = tags
        self._described = None
        self._groups.clear()

    def evolve(self, table: Table) -> None:
        """The table was altered: from now on its members' tags are kept in the new order of tags."""
        old, self.table = self.table, table
        if old.tags != table.tags:
            self.tags = [carry(tags, old.tags, table.tags) for tags in self.tags]
        self._described = None
        self._groups.clear()

    def next_incarnation(self, name: str) -> int:
        return self.dropped.get(name, -1) + 1

    def numbers_of(self, names: Iterable[str]) -> Children:
        """The numbers of these tables; -1 for one that does not exist."""
        return np.fromiter((self.numbers.get(name, -1) for name in names), dtype=np.int32)

    def group(self, tags: Mapping[str, object]) -> Children:
        """The children with these tag values (``tbname`` counts as a tag)."""
        names = tuple(sorted(tags))
        if names not in self._groups:
            self._groups[names] = self._index(names)
        found = self._groups[names].get(tuple(tags[name] for name in names), [])
        return np.array(found, dtype=np.int32)

    def _index(self, names: tuple[str, ...]) -> dict[Tags, list[int]]:
        order = {tag.name: place for place, tag in enumerate(self.table.tags)}
        index: dict[Tags, list[int]] = {}
        for name, number in self.numbers.items():
            values = self.tags[number]
            key = tuple(name if n == TBNAME and n not in order else values[order[n]] for n in names)
            index.setdefault(key, []).append(number)
        return index

    def described(self) -> pl.DataFrame:
        """By number: ``tbname`` and the tags, for members that exist and for those that did."""
        if self._described is None or self._described[0] != len(self.names):
            columns: dict[str, pl.Series] = {}
            for place, tag in enumerate(self.table.tags):
                cells = [tags[place] for tags in self.tags]
                columns[tag.name] = pl.Series(tag.name, cells, dtype=polars_type(tag.type), strict=False)
            columns.setdefault(TBNAME, pl.Series(TBNAME, self.names, dtype=pl.String))
            self._described = (len(self.names), pl.DataFrame(columns))
        return self._described[1]


class TagReader:
    """Checks and orders the tags that a message or an operation names."""

    def __init__(self, table: Table) -> None:
        self.table = table
        # tags are decoded as strictly as columns are: as a row whose time column has a name that no tag has
        self._key = "_" * (1 + max((len(tag.name) for tag in table.tags), default=0))
        key = msgspec.structs.replace(table.columns[0], name=self._key, type=TIMESTAMP)
        self._decoder = RowDecoder(msgspec.structs.replace(table, columns=(key, *table.tags)))

    def read(self, tags: Mapping[str, object]) -> Tags:
        """The values in the order of the table's tags, NULL for a tag that is not named.

        :raises WireError: for a tag that the table does not have, or a value that does not fit.
        """
        if self.table.kind == "normal":
            raise WireError(ErrorCode.UNDECODABLE, f"{self.table.name} is a normal table: it has no tags")
        if self._key in tags:
            raise WireError(ErrorCode.UNDECODABLE, f"tags: {self.table.name} has no tag {self._key}")
        value = msgspec.json.encode({self._key: 0, **tags})
        decoded = self._decoder.decode([value])
        if decoded.bad:
            raise WireError(decoded.bad[0].error.code, f"tags: {decoded.bad[0].error.message}")
        return tuple(decoded.frame.row(0)[1:])
