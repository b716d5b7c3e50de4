"""What a slot knows of the child tables of a super table: which exist, their incarnations and their tags."""

from __future__ import annotations

from typing import Any

from millrace_core.model.revisions import carry
from millrace_core.model.schema import Child, Column, Table, child_uid
from millrace_core.wire.operations import Drop, Operation, Register, Retag


class Family:
    """The children whose messages come to this slot.

    Tags are kept if a stream groups by them (``keep_tags``), or if the gateway has told them. Children that
    were never dropped have incarnation 0 and need no entry: their uid follows from their name (model.schema).
    """

    def __init__(self) -> None:
        self.keep_tags = False
        self.tags: dict[bytes, tuple[Any, ...]] = {}
        self.incarnations: dict[bytes, int] = {}
        self.dropped: set[bytes] = set()
        self.order: tuple[Column, ...] | None = None
        """The tags that give the order of the values; None: those of the table as the streams know it."""

    def know(self, child: Child) -> None:
        """A child that existed when a stream was defined."""
        name = child.name.encode()
        self.dropped.discard(name)
        if child.incarnation:
            # the slot may have seen a later incarnation since the record was made
            self.incarnations[name] = max(child.incarnation, self.incarnations.get(name, 0))
        self.tags[name] = tuple(child.tags)

    def apply(self, name: bytes, operation: Operation, table: Table, again: bool = False) -> bool:
        """Take in an operation; True if the child that had the name no longer exists. ``again``: the
        operation has come before, and so have all those after it up to now: incarnations are not counted
        twice.

        A producer that writes rows with tags does not know the incarnation and leaves it 0. After a drop,
        that means the next one.
        """
        if isinstance(operation, Drop):
            self.tags.pop(name, None)
            known = name not in self.dropped
            self.dropped.add(name)
            return known
        if isinstance(operation, Retag) and name in self.tags:
            self.tags[name] = tuple(operation.tags.get(tag.name) for tag in table.tags)
        if not isinstance(operation, Register):
            return False
        current = self.incarnations.get(name, 0)
        ended = False
        if again and name in self.dropped:
            pass
        elif operation.incarnation > current:
            ended = name not in self.dropped
            self.incarnations[name] = operation.incarnation
        elif name in self.dropped and not operation.incarnation:
            self.incarnations[name] = current + 1
        elif name not in self.dropped and (name in self.tags or not self.keep_tags):
            return False
        self.dropped.discard(name)
        if self.keep_tags:
            self.tags[name] = tuple(operation.tags.get(tag.name) for tag in table.tags)
        return ended

    def reorder(self, old: tuple[Column, ...], new: tuple[Column, ...]) -> None:
        """The table's tags were altered."""
        self.order = new
        if old != new:
            self.tags = {name: carry(values, old, new) for name, values in self.tags.items()}

    def uid(self, db: str, name: bytes) -> int:
        return child_uid(db, name.decode(), self.incarnations.get(name, 0))

    def dump(self) -> list[Any]:
        names, tags = list(self.tags), list(self.tags.values())
        return [self.keep_tags, names, tags, self.incarnations, sorted(self.dropped)]

    @staticmethod
    def load(data: list[Any]) -> Family:
        family = Family()
        family.keep_tags, names, tags, family.incarnations, dropped = data
        family.tags = dict(zip(names, map(tuple, tags), strict=True))
        family.dropped = set(dropped)
        return family
