"""The groups of a stream in a slot: ids, keys and names, and where each is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import stable_hash
from millrace_core.wire.events import Group

Handle = bytes | int
"""What a group is found by: its table's name if tables are evaluated, its id if rows come regrouped."""


def part_of(group: Group, stream: int, values: tuple[Any, ...]) -> Group:
    """The group of those rows of ``group`` whose keys have these values."""
    # the type distinguishes NULL from the text 'None'
    typed = (f"{type(value).__name__}:{value}" for value in values)
    return Group(stable_hash("keys", stream, group.id, *typed), (*group.key, *values), group.table)


class Groups:
    """Groups in the order in which they came."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.tables: list[bytes | None] = []
        self.keys: list[tuple[Any, ...]] = []
        self.index: dict[Handle, int] = {}
        self.ended: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, handle: Handle, id_: int, key: tuple[Any, ...], table: bytes | None) -> int:
        place = len(self.ids)
        self.ids.append(id_)
        self.keys.append(key)
        self.tables.append(table)
        self.index[handle] = place
        return place

    def get(self, place: int) -> Group:
        table = self.tables[place]
        return Group(self.ids[place], self.keys[place], None if table is None else table.decode())

    def places(self) -> dict[int, int]:
        """Where each group is found by its id."""
        return {id_: place for place, id_ in enumerate(self.ids)}

    def of_table(self, name: bytes) -> list[int]:
        """The groups with rows of this table, if groups are found by their ids."""
        return [place for place in self.index.values() if self.tables[place] == name]

    def end(self, handle: Handle) -> None:
        """The group takes no more rows, and a new group may get its handle. :meth:`sweep` removes it."""
        place = self.index.pop(handle, None)
        if place is not None:
            self.ended.append(place)

    def sweep(self) -> npt.NDArray[np.bool_] | None:
        """Forget the ended groups. Returns which were kept (None: all)."""
        if not self.ended:
            return None
        kept = np.ones(len(self.ids), dtype=bool)
        kept[self.ended] = False
        place = np.cumsum(kept) - 1
        self.index = {handle: int(place[old]) for handle, old in self.index.items()}
        for name in ("ids", "tables", "keys"):
            values = getattr(self, name)
            setattr(self, name, [value for value, keep in zip(values, kept.tolist(), strict=True) if keep])
        self.ended = []
        return kept

    def dump(self, plain: bool) -> list[Any]:
        """``plain``: keys follow from the tables' names and are left out."""
        ids = np.array(self.ids, dtype=np.int64).tobytes()
        return [ids, self.tables, None if plain else self.keys]

    def load(self, data: list[Any], by_table: bool) -> None:
        """The inverse of :meth:`dump`; ``by_table``: groups are found by their table, else by their id."""
        ids, self.tables, keys = data
        self.ids = np.frombuffer(ids, dtype=np.int64).tolist()
        if keys is None:
            self.keys = [() if table is None else (table.decode(),) for table in self.tables]
        else:
            self.keys = [tuple(key) for key in keys]
        handles: list[Any] = self.tables if by_table else self.ids
        self.index = dict(zip(handles, range(len(handles)), strict=True))
