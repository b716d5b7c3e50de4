"""The groups of a stream as the trigger table's children make them: the same as trigger-svc's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millrace_core.model.schema import stable_hash
from millrace_core.trigger.stream.definition import Definition
from millrace_core.wire import regroup
from millrace_core.wire.events import Group
from millrace_core.wire.topics import REGROUP, slot_of

Member = tuple[int, str, int, Mapping[str, object]]
"""A table whose rows trigger: its number, name, uid, tags by name."""


def groups_of(
    definition: Definition, members: Iterable[Member], slot: int, slots: int
) -> dict[Group, list[int]]:
    """The groups that are judged in a slot, and the numbers of their tables."""
    found: dict[Group, list[int]] = {}
    partition, uid = definition.spec.partition, definition.spec.uid
    for number, name, table_uid, tags in members:
        if definition.single is not None and name != definition.single:
            continue
        key = tuple(name if column == "tbname" else tags.get(column) for column in partition)
        id_ = table_uid if "tbname" in partition else stable_hash(uid, *key)
        group = Group(id_ if partition else 0, key, name if definition.home else None)
        if slot_of_group(definition, group, slots) == slot:
            found.setdefault(group, []).append(number)
    return found


def slot_of_group(definition: Definition, group: Group, slots: int) -> int:
    """Where a group is judged: with its table, or by the key of its regrouped rows."""
    if group.table is not None:
        return slot_of(definition.topic, group.table.encode(), slots)
    return slot_of(REGROUP.name, regroup.key(definition.spec.uid, group.id), slots)
