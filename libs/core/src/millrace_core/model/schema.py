"""Databases, tables and child tables as the catalog keeps them."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from millrace_core.model.types import DataType

Precision = Literal["ms", "us", "ns"]
TableKind = Literal["super", "normal"]
TICKS_PER_SECOND: dict[Precision, int] = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
MAX_NAME = 192  # bytes of a table name


class Column(msgspec.Struct, frozen=True):
    """A column or tag: its (case-sensitive) name, type, whether it is part of a composite key, a comment."""

    name: str
    type: DataType
    composite_key: bool = False
    comment: str = ""


class Database(msgspec.Struct, frozen=True):
    """A database; ``created`` is milliseconds since the epoch."""

    name: str
    precision: Precision = "ms"
    created: int = 0


class Table(msgspec.Struct, frozen=True):
    """A super table (``tags`` not empty) or a normal table. ``columns[0]`` is the TIMESTAMP key.

    ``uid`` is new for every CREATE, so that a table dropped and created again is another table.
    """

    db: str
    name: str
    kind: TableKind
    uid: int
    precision: Precision
    columns: tuple[Column, ...]
    tags: tuple[Column, ...] = ()
    created: int = 0

    @property
    def key(self) -> Column:
        return self.columns[0]

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def tag(self, name: str) -> Column | None:
        return next((c for c in self.tags if c.name == name), None)


class Child(msgspec.Struct, frozen=True):
    """A child table of the super table ``db.table``: tag values in the order of the super table's tags.

    ``incarnation`` counts how often a child of this name was dropped before; it makes the uid new.
    """

    db: str
    table: str
    name: str
    tags: tuple[object, ...]
    incarnation: int = 0
    created: int = 0

    @property
    def uid(self) -> int:
        return child_uid(self.db, self.name, self.incarnation)


def stable_hash(*parts: object) -> int:
    """A positive 63-bit hash of the parts, the same in every process and release."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def child_uid(db: str, name: str, incarnation: int = 0) -> int:
    """The uid of a child table: known to whoever knows its name, so a producer can make a table."""
    return stable_hash("child", db, name, incarnation)
