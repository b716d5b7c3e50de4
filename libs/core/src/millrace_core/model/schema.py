"""Databases, tables and child tables as the catalog keeps them."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from millrace_core.model.types import DataType

Precision = Literal["ms", "us", "ns"]
TableKind = Literal["super", "normal"]
TICKS_PER_SECOND: dict[Precision, int] = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SEPARATOR = "\x1f"
"""Separates the parts of what is hashed."""
HASH_BYTES = 8
"""The bytes of a hash that are used, except for the highest bit."""
MAX_NAME = 192  # bytes of a table name


class Column(msgspec.Struct, frozen=True):
    """A column or tag: its (case-sensitive) name, type, whether it is part of a composite key, a comment.

    ``stored``: the name under which its values are kept, if not its own: a renamed column keeps its values,
    and one that was dropped and added again has none of the old ones.
    """

    name: str
    type: DataType
    composite_key: bool = False
    comment: str = ""
    stored: str = ""

    @property
    def identity(self) -> str:
        """Unchanged by a RENAME, and never that of another column of the table, even of a dropped one."""
        return self.stored or self.name


KEEP = 0
"""Rows are kept for ever unless KEEP says otherwise. With its default of ten years, TDengine refuses older
rows when they are written; here they would vanish silently, such as rows of a series that begins in 1970."""
WAL_RETENTION = 3600
"""TDengine's default of WAL_RETENTION_PERIOD, in seconds."""


class Database(msgspec.Struct, frozen=True):
    """A database; ``created`` is milliseconds since the epoch.

    ``keep``: minutes; rows whose time is older are not kept (0: all are). ``wal_retention``: how many seconds
    a row stays in its WAL topic after everybody has finished with it; -1: for ever.
    """

    name: str
    precision: Precision = "ms"
    created: int = 0
    keep: int = KEEP
    wal_retention: int = WAL_RETENTION


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Where a column of a virtual table comes from: the column with that ``identity`` of the normal table
    ``db.table`` (then ``name`` is ``table``) or of the child ``name`` of the super table ``db.table``.

    ``uid`` is that of the normal or super table, ``incarnation`` that of the child: a table made anew under
    an old name is not the one that was meant.
    """

    db: str
    table: str
    uid: int
    name: str
    column: str
    incarnation: int = 0


class Revision(msgspec.Struct, frozen=True):
    """What a table was before an ALTER. It reads those messages of the WAL topic that lie before the offsets
    ``until`` (partition, offset). ``version``: that of the table at the time."""

    version: int
    until: tuple[tuple[int, int], ...]
    columns: tuple[Column, ...]
    tags: tuple[Column, ...] = ()


class Table(msgspec.Struct, frozen=True):
    """A super table (``tags`` not empty) or a normal table. ``columns[0]`` is the TIMESTAMP key.

    ``uid`` is new for every CREATE, so a table that is dropped and created again is another table.
    ``version`` counts the ALTERs; ``earlier`` is what the table was before each, the oldest first.

    ``virtual``: it stores nothing, and its rows are those of other tables; ``origins``: where each column of
    a virtual normal table comes from (None: the time, and columns that are always NULL).
    """

    db: str
    name: str
    kind: TableKind
    uid: int
    precision: Precision
    columns: tuple[Column, ...]
    tags: tuple[Column, ...] = ()
    created: int = 0
    version: int = 0
    earlier: tuple[Revision, ...] = ()
    virtual: bool = False
    origins: tuple[Origin | None, ...] = ()

    @property
    def key(self) -> Column:
        return self.columns[0]

    @property
    def has_composite_key(self) -> bool:
        """Whether rows of one table with equal times may be different rows."""
        return any(column.composite_key for column in self.columns)

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def tag(self, name: str) -> Column | None:
        return next((c for c in self.tags if c.name == name), None)


class Child(msgspec.Struct, frozen=True):
    """A child table of the super table ``db.table``: tag values in the order of the super table's tags.

    ``incarnation`` counts how often a child of this name was dropped before; it makes the uid new.
    ``version``: the version of the super table that these tags belong to. ``origins``: for the child of a
    virtual super table, where each column comes from.
    """

    db: str
    table: str
    name: str
    tags: tuple[object, ...]
    incarnation: int = 0
    created: int = 0
    version: int = 0
    origins: tuple[Origin | None, ...] = ()

    @property
    def uid(self) -> int:
        return child_uid(self.db, self.name, self.incarnation)


def cut_name(name: str) -> str:
    """The table name, cut to MAX_NAME bytes if it is longer (seed 000)."""
    return name.encode()[:MAX_NAME].decode("utf-8", "ignore")


def stable_hash(*parts: object) -> int:
    """A positive 63-bit hash of the parts, the same in every process and release."""
    text = SEPARATOR.join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=HASH_BYTES).digest(), "big") >> 1


def child_uid(db: str, name: str, incarnation: int = 0) -> int:
    """The uid of a child table. Whoever knows the name knows the uid, so a producer can make a table."""
    return stable_hash("child", db, name, incarnation)
