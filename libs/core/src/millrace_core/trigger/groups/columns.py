"""Memories of many groups as columns: what a slot keeps between batches.

A windower's memory of one group is a plain :class:`msgspec.Struct` with two kinds of fields: single values
(``int``, or anything else that msgpack takes) and ``list[X]``, where X is a struct of such values (any number
of records per group). :class:`Columns` holds the memories of many groups. A single field becomes one array
(of int64, or of objects). A list field becomes one table of records with the column ``owner`` (the group's
index), by which it is sorted. Arrays are encoded and decoded as bytes, so that a slot of a thousand groups is
read and written in microseconds.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Table = dict[str, Array]
"""Records: column name -> values; they are sorted by ``owner``, the group's index."""
OWNER = "owner"


class Layout(msgspec.Struct, frozen=True):
    """The fields of a memory: single fields with their defaults, list fields with the type of their records.

    ``dtypes``: those of single fields by name, those of record fields in lists by (list, field).
    """

    singles: dict[str, Any]
    lists: dict[str, type[msgspec.Struct]]
    dtypes: dict[str | tuple[str, str], Any]


FEW = 8
"""An array of no more values than this is kept as it is: looking for a narrower type takes longer than it
saves."""


@lru_cache
def layout(memory: type[msgspec.Struct]) -> Layout:
    """How memories of this type are laid out in columns."""
    singles: dict[str, Any] = {}
    lists: dict[str, type[msgspec.Struct]] = {}
    dtypes: dict[str | tuple[str, str], Any] = {}
    hints = typing.get_type_hints(memory)
    for field in msgspec.structs.fields(memory):
        kind = hints[field.name]
        if typing.get_origin(kind) is list:
            record = lists[field.name] = typing.get_args(kind)[0]
            for name, hint in typing.get_type_hints(record).items():
                dtypes[field.name, name] = _dtype(hint)
        else:
            singles[field.name] = field.default
            dtypes[field.name] = _dtype(kind)
    return Layout(singles, lists, dtypes)


def _dtype(hint: Any) -> Any:
    return np.int64 if hint is int else object


def filled(values: Sequence[Any], dtype: Any) -> Array:
    """An array of these values; with an object dtype it holds any values."""
    return objects(values) if dtype is object else np.array(values, dtype=dtype)


def objects(values: Sequence[Any]) -> Array:
    """A one-dimensional array of objects."""
    return np.fromiter(values, dtype=object, count=len(values))


class Columns:
    """The memories of ``count`` groups. ``singles`` and ``lists`` may be replaced, array for array."""

    def __init__(self, memory: type[msgspec.Struct], extra: Sequence[str] = ()) -> None:
        """``extra``: further columns of every list field's records (the row columns that a trigger reads)."""
        self.memory = memory
        self.count = 0
        shape = layout(memory)
        self.singles: dict[str, Array] = {
            name: np.empty(0, dtype=shape.dtypes[name]) for name in shape.singles
        }
        self.lists: dict[str, Table] = {
            name: {OWNER: np.empty(0, dtype=np.int64)}
            | {field: np.empty(0, dtype=shape.dtypes[name, field]) for field in record.__struct_fields__}
            | {column: np.empty(0, dtype=object) for column in extra}
            for name, record in shape.lists.items()
        }

    def grow(self, count: int) -> None:
        """Make room for ``count`` groups in all; new ones begin with the struct's defaults."""
        if count <= self.count:
            return
        shape = layout(self.memory)
        for name, default in shape.singles.items():
            fresh = np.full(count - self.count, default, dtype=shape.dtypes[name])
            self.singles[name] = np.concatenate((self.singles[name], fresh))
        self.count = count

    def keep(self, wanted: npt.NDArray[np.bool_]) -> None:
        """Forget the groups that are not wanted; the others move up."""
        place = np.cumsum(wanted) - 1
        self.singles = {name: array[wanted] for name, array in self.singles.items()}
        for name, table in self.lists.items():
            mine = wanted[table[OWNER]]
            kept = {column: array[mine] for column, array in table.items()}
            kept[OWNER] = place[kept[OWNER]]
            self.lists[name] = kept
        self.count = int(wanted.sum())

    def get(self, group: int) -> msgspec.Struct:
        """The memory of one group, as its struct."""
        one = slice(group, group + 1)
        cells: dict[str, Any] = {name: array[one].tolist()[0] for name, array in self.singles.items()}
        for name, record in layout(self.memory).lists.items():
            table = self.lists[name]
            low, high = np.searchsorted(table[OWNER], (group, group + 1))
            arrays = [table[column][low:high].tolist() for column in record.__struct_fields__]
            cells[name] = [record(*values) for values in zip(*arrays, strict=True)]
        return self.memory(**cells)

    def put(self, memories: dict[int, msgspec.Struct]) -> None:
        """Replace the memories of some groups (index -> struct)."""
        groups = np.fromiter(memories, dtype=np.int64, count=len(memories))
        shape = layout(self.memory)
        for name, array in self.singles.items():
            values = [getattr(memory, name) for memory in memories.values()]
            array[groups] = filled(values, shape.dtypes[name])
        for name, record in shape.lists.items():
            records = [(g, item) for g, memory in memories.items() for item in getattr(memory, name)]
            fresh: Table = {OWNER: np.array([g for g, _ in records], dtype=np.int64)}
            for column in record.__struct_fields__:
                cells = [getattr(item, column) for _, item in records]
                fresh[column] = filled(cells, shape.dtypes[name, column])
            self.replace(name, groups, fresh)

    def replace(self, name: str, groups: Ints, fresh: Table) -> None:
        """Replace the records of a list field for some groups."""
        table = self.lists[name]
        if len(table[OWNER]):
            gone = np.zeros(self.count, dtype=bool)
            gone[groups] = True
            rest = ~gone[table[OWNER]]
            fresh = {column: np.concatenate((array[rest], fresh[column])) for column, array in table.items()}
        self.lists[name] = take(fresh, np.argsort(fresh[OWNER], kind="stable"))

    def dump(self) -> list[Any]:
        """Plain data for msgpack; arrays as (dtype, bytes)."""
        return [
            self.count,
            {name: _pack(array) for name, array in self.singles.items()},
            {name: {c: _pack(array) for c, array in table.items()} for name, table in self.lists.items()},
        ]

    def load(self, data: list[Any]) -> None:
        """The inverse of :meth:`dump`. Fields that have been added since then begin with their defaults."""
        count, ints, lists = data
        self.grow(count)
        for name, packed in ints.items():
            if name in self.singles:
                self.singles[name] = _unpack(packed)
        for name, table in lists.items():
            if name in self.lists:
                loaded = {column: _unpack(packed) for column, packed in table.items()}
                missing = np.zeros(len(loaded[OWNER]), dtype=np.int64)
                self.lists[name] = {column: loaded.get(column, missing) for column in self.lists[name]}


def starts_of(*columns: Array) -> Ints:
    """Where each run of rows begins that have equal values in all these columns."""
    first = np.ones(len(columns[0]), dtype=bool)
    changed = first[1:]
    changed[:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        changed |= column[1:] != column[:-1]
    return first.nonzero()[0]


def take(table: Table, index: Array) -> Table:
    """The records at these places (or under this mask)."""
    return {column: array[index] for column, array in table.items()}


def first_not_less(group: Ints, value: Ints, groups: Ints, values: Ints) -> Ints:
    """For each (group, value): the first place in the ascending (groups, values) that is not less."""
    both = np.concatenate((group, groups)), np.concatenate((value, values))
    is_target = np.repeat((0, 1), (len(group), len(groups)))
    order = np.lexsort((is_target, both[1], both[0]))
    targets_before = np.cumsum(is_target[order])
    queries = is_target[order] == 0
    found = np.empty(len(group), dtype=np.int64)
    found[order[queries]] = targets_before[queries]
    return found


def _pack(array: Array) -> list[Any]:
    if array.dtype == object:
        return ["O", array.tolist()]
    if array.dtype == np.int64 and len(array) > FEW:
        # the times in a slot lie close together: their differences to the lowest fit into fewer bytes
        low, high = int(array.min()), int(array.max())
        for narrow in ("u1", "u2", "u4"):
            if high - low < 1 << (8 * int(narrow[1])):
                return [narrow, (array - low).astype(narrow).tobytes(), low]
    return [array.dtype.str, array.tobytes()]


def _unpack(packed: list[Any]) -> Array:
    if packed[0] == "O":
        return objects(packed[1])
    raw = np.frombuffer(packed[1], dtype=packed[0])
    return raw.astype(np.int64) + packed[2] if len(packed) == 3 else raw.copy()
