"""The groups of a stream, derived from the trigger table's children and their rows; they are the same as in
trigger-svc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from millrace_core.model.schema import stable_hash
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.rows.keys import Values
from millrace_core.trigger.stream.definition import Definition
from millrace_core.wire import regroup
from millrace_core.wire.events import Group
from millrace_core.wire.topics import REGROUP, slot_of

Member = tuple[int, str, int, Mapping[str, object]]
"""A table whose rows trigger the stream: its number, name, uid, tags by name."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Says which group owns a row. ``by_table[number]``: the owner of a table's rows, -1 for none.
    ``by_key``: if keys divide the rows, the group of an owner's rows with these key values."""

    by_table: Ints
    by_key: Mapping[tuple[int, Values], int] | None = None

    def of_rows(self, owner: Ints, values: Iterable[Values]) -> Ints:
        """The group of each row (-1 for none), given the ``owner`` of its table's rows and its key values."""
        assert self.by_key is not None, "keys divide the rows"
        groups = [self.by_key.get(said, -1) for said in zip(owner.tolist(), values, strict=True)]
        return np.array(groups, dtype=np.int64)


def grouped(definition: Definition, members: Iterable[Member]) -> dict[Group, list[int]]:
    """The groups that tables belong to as a whole, with the tables' numbers; keys of rows are not
    considered."""
    found: dict[Group, list[int]] = {}
    partition, uid = definition.spec.partition, definition.spec.uid
    for number, name, table_uid, tags in members:
        if definition.single is not None and name != definition.single:
            continue
        key = tuple(name if column == "tbname" else tags.get(column) for column in partition)
        id_ = table_uid if "tbname" in partition else stable_hash(uid, *key)
        group = Group(id_ if partition else 0, key, name if definition.home else None)
        found.setdefault(group, []).append(number)
    return found


def groups_of(
    definition: Definition, members: Iterable[Member], slot: int, slots: int
) -> dict[Group, list[int]]:
    """The groups that are evaluated in a slot, and the numbers of their tables, for a stream without keys."""
    found = grouped(definition, members)
    return {group: mine for group, mine in found.items() if slot_of_group(definition, group, slots) == slot}


def base_of(definition: Definition, group: Group) -> tuple[tuple[object, ...], str | None]:
    """What distinguishes the tables of a group from others; equal for the group and for what :func:`grouped`
    gives."""
    return group.key[: len(definition.spec.partition)], group.table


def values_of_group(definition: Definition, group: Group) -> Values:
    """The key values of a group's rows."""
    return group.key[len(definition.spec.partition) :]


def numbered(definition: Definition, groups: Mapping[Group, list[int]]) -> Owners:
    """The owners of the rows of these groups alone; the groups are numbered in order."""
    size = 1 + max((table for tables in groups.values() for table in tables), default=0)
    by_table = np.full(size, -1, dtype=np.int64)
    if not definition.keys:
        for number, tables in enumerate(groups.values()):
            by_table[tables] = number
        return Owners(by_table)
    bases: dict[object, int] = {}
    by_key: dict[tuple[int, Values], int] = {}
    for number, (group, tables) in enumerate(groups.items()):
        base = bases.setdefault(base_of(definition, group), len(bases))
        by_table[tables] = base
        by_key[base, values_of_group(definition, group)] = number
    return Owners(by_table, by_key)


def slot_of_group(definition: Definition, group: Group, slots: int) -> int:
    """Where a group is evaluated: with its table, or by the key of its regrouped rows."""
    if group.table is not None:
        return slot_of(definition.topic, group.table.encode(), slots)
    return slot_of(REGROUP.name, regroup.key(definition.spec.uid, group.id), slots)
