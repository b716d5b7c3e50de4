"""The catalog: databases, tables, child tables, streams, users, as keyed records of the ``catalog`` topic.

A pure state machine: :meth:`Catalog.apply` takes a record (key, value) and changes what is known. The gateway
is the only writer; every other service is a reader that applies what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Protocol

import msgspec

from millrace_core.analytics import Algorithm, AnalysisKind, Directory, of_anodes
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.model.device import Device
from millrace_core.model.insert_trigger import InsertTrigger
from millrace_core.model.revisions import current
from millrace_core.model.schema import Child, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import read_known_trigger
from millrace_core.wire.reading import Format, strictly, text_of, undecodable
from millrace_core.wire.topics import CATALOG

SYSTEM_DATABASES = frozenset({"information_schema", "performance_schema"})
"""Databases that nobody creates: they show the catalog itself."""


class User(msgspec.Struct, frozen=True):
    """A user; ``password`` is what the REST login checks, salted and hashed by the gateway."""

    name: str
    password: str
    salt: str = ""
    superuser: bool = False


class GrantedTable(msgspec.Struct, frozen=True):
    """A normal, super or child table. A table that is created later under the same name has another uid."""

    db: str
    name: str
    uid: int


class Grant(msgspec.Struct, frozen=True):
    """What a user may do besides reading the catalog: ``read`` and ``write`` name databases (``*``: all),
    ``read_tables`` and ``write_tables`` single tables; a super table stands for its child tables too."""

    user: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    read_tables: tuple[GrantedTable, ...] = ()
    write_tables: tuple[GrantedTable, ...] = ()


class Snode(msgspec.Struct, frozen=True):
    """A stream node that somebody created. It has no effect in Millrace except that it is listed."""

    id: int
    created: int = 0


class Anode(msgspec.Struct, frozen=True):
    """A third-party analytics node (``url``: its ``host:port``), and the algorithms that it had when it was
    last asked. Times in milliseconds."""

    id: int
    url: str
    algorithms: tuple[tuple[AnalysisKind, str], ...] = ()
    created: int = 0
    updated: int = 0


class StreamEntry(msgspec.Struct, frozen=True):
    """A stream and its life.

    ``wanted`` is what the user asked for last. ``control`` is the number of the control record that asks for
    it: the stream is in that state once trigger-svc has applied that record. ``stopped_at``: the ends of its
    trigger table's topic when the stream was stopped. ``skipped``: stretches of that topic (partition, from,
    to) that it was told to leave out when it was started again.
    """

    spec: StreamSpec
    wanted: str  # 'Running' | 'Stopped'
    epoch: int
    control: int
    stopped_at: dict[int, int] = {}
    skipped: tuple[tuple[int, int, int], ...] = ()


class Tombstone(msgspec.Struct, frozen=True):
    """Says that a child table of ``db.table`` was dropped. ``incarnation`` was its last: the next table of
    that name gets a greater one, and so another uid. The tombstone goes away with the super table."""

    db: str
    table: str
    name: str
    incarnation: int


KINDS: dict[str, type[msgspec.Struct]] = {
    "database": Database,
    "table": Table,
    "child": Child,
    "stream": StreamEntry,
    "user": User,
    "tombstone": Tombstone,
    "grant": Grant,
    "snode": Snode,
    "anode": Anode,
    "device": Device,
    "cq": ContinuousQuery,
    "insert_trigger": InsertTrigger,
}
Record = (
    Database | Table | Child | StreamEntry | User | Tombstone | Grant | Snode | Anode | Device
    | ContinuousQuery | InsertTrigger
)  # fmt: skip
_SEP = "\x1f"
_IN_DATABASE = frozenset({"table", "child", "stream", "tombstone", "device"})
"""Kinds whose records are named by a database and a name in it; the others have one name."""


def record_key(kind: str, *names: str) -> bytes:
    """The key of a record: its kind and its (qualified) name."""
    return _SEP.join((kind, *names)).encode()


def key_of(record: Record) -> bytes:
    match record:
        case Database(name=name):
            return record_key("database", name)
        case Table(db=db, name=name):
            return record_key("table", db, name)
        case Child(db=db, name=name):
            return record_key("child", db, name)
        case StreamEntry(spec=spec):
            return record_key("stream", spec.db, spec.name)
        case User(name=name):
            return record_key("user", name)
        case Tombstone(db=db, name=name):
            return record_key("tombstone", db, name)
        case Grant(user=user):
            return record_key("grant", user)
        case Snode(id=number):
            return record_key("snode", str(number))
        case Anode(id=number):
            return record_key("anode", str(number))
        case Device(db=db, name=name):
            return record_key("device", db, name)
        case ContinuousQuery(name=name) | InsertTrigger(name=name):
            return record_key("cq" if isinstance(record, ContinuousQuery) else "insert_trigger", name)


_FORMATS = {
    kind: Format(CATALOG, strictly(msgspec.json.Decoder(type_, dec_hook=read_known_trigger).decode), key_of)
    for kind, type_ in KINDS.items()
}


def read(key: bytes | None, value: bytes | None) -> tuple[str, tuple[str, ...], Record | None]:
    """The kind, the names and the record of a message of the topic; a record of None removes the entry with
    that key.

    :raises WireError: UNDECODABLE for a message that does not fit the topic; a newer gateway may write such
        ones.
    """
    kind, _, rest = text_of(key).partition(_SEP)
    names = tuple(rest.split(_SEP, 1 if kind in _IN_DATABASE else 0))
    named = all(names[1:] if kind == "stream" else names)  # a stream's name may be global
    if kind not in KINDS or not named or len(names) != (2 if kind in _IN_DATABASE else 1):
        raise undecodable("the key is not the key of a definition")
    form = _FORMATS[kind]
    return kind, names, None if form.deletes(value) else form.read(key, value)


_LARGE = frozenset({
    "tables", "children", "family", "streams", "tombstones", "users", "grants", "devices", "cqs",
    "insert_triggers",
})  # fmt: skip
"""What there may be many of. Everything else in a catalog belongs to every part of it."""


class Definitions(Protocol):
    """Whatever provides parts of the catalog: the catalog itself, or something that holds it or can ask for
    them."""

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        """See :meth:`Catalog.part`."""


class Catalog:
    """What exists, by name. Names of tables and children share one name space per database."""

    def __init__(self) -> None:
        self.databases: dict[str, Database] = {}
        self.tables: dict[tuple[str, str], Table] = {}
        self.children: dict[tuple[str, str], Child] = {}
        self.streams: dict[tuple[str, str], StreamEntry] = {}
        """By database and name; the database of a global name is empty."""
        self.users: dict[str, User] = {}
        self.tombstones: dict[tuple[str, str], Tombstone] = {}
        self.grants: dict[str, Grant] = {}
        self.snodes: dict[str, Snode] = {}
        self.anodes: dict[str, Anode] = {}
        self.devices: dict[tuple[str, str], Device] = {}
        """Those of IoTDB, by database and path."""
        self.cqs: dict[str, ContinuousQuery] = {}
        """IoTDB's continuous queries."""
        self.insert_triggers: dict[str, InsertTrigger] = {}
        self.algorithms: tuple[Algorithm, ...] = ()
        """The algorithms that the process reading the catalog can compute itself: no record lists them."""
        self.family: dict[tuple[str, str], dict[str, Child]] = {}
        """(db, super table) -> its children by name."""
        self._listed: dict[str, list[str]] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record; a None value removes.

        :raises WireError: as :func:`read` does; the catalog is then unchanged.
        """
        kind, names, record = read(key, value)
        name = names[0] if len(names) == 1 else (names[0], names[1])
        if kind == "child":
            self._apply_child((names[0], names[1]), record)
            return
        home: dict[object, object] = getattr(self, f"{kind}s")
        if record is None:
            home.pop(name, None)
        else:
            home[name] = record
        if isinstance(record, Table) and record.version:
            # its children's tags are kept in the order of its own tags, whichever record came first
            for child in list(self.children_of(record)):
                self._enter(current(child, record))

    def _apply_child(self, name: tuple[str, str], record: object) -> None:
        old = self.children.pop(name, None)
        if old is not None:
            self.family.get((old.db, old.table), {}).pop(old.name, None)
        if isinstance(record, Child):
            table = self.tables.get((record.db, record.table))
            self._enter(record if table is None else current(record, table))

    def _enter(self, child: Child) -> None:
        self.children[child.db, child.name] = child
        self.family.setdefault((child.db, child.table), {})[child.name] = child

    def directory(self) -> Directory:
        """The analysis algorithms that a query may name."""
        registered = [(anode.id, anode.url, anode.algorithms) for anode in self.anodes.values()]
        return Directory((*self.algorithms, *of_anodes(registered)))

    def find(self, db: str, name: str) -> tuple[Table, Child | None] | None:
        """The table of that name; for a child table its super table and the child itself."""
        if table := self.tables.get((db, name)):
            return table, None
        child = self.children.get((db, name))
        if child and (table := self.tables.get((db, child.table))):
            return table, child
        return None

    def streams_named(
        self, named: str | None, chosen: str | None, name: str, *, global_first: bool = True
    ) -> Iterator[StreamEntry]:
        """The streams that a name may mean: the one of the database ``named``. If that is None: the global
        one, then the one of the database ``chosen`` (in the reverse order without ``global_first``)."""
        homes = ["", chosen or ""] if named is None else [named]
        for home in homes if global_first else reversed(homes):
            if (entry := self.streams.get((home, name))) is not None:
                yield entry

    def names(self, db: str) -> list[str]:
        """The names of all tables of a database, children included."""
        if db in self._listed:
            return self._listed[db]
        return [name for other, name in (*self.tables, *self.children) if other == db]

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        """A copy of what these (database, table) names mean, for a caller that works on it for longer. With
        ``families`` it includes the children of super tables among them."""
        found = Catalog()
        for name, value in vars(self).items():
            if name not in _LARGE:
                setattr(found, name, copy(value))
        for db, name in wanted:
            known = self.find(db, name)
            if known is None:
                found._listed[db] = self.names(db)
                continue
            table, child = known
            found.tables[db, table.name] = table
            for one in [child] if child is not None else self.children_of(table) if families else ():
                found._enter(one)
        return found

    def is_like(self, other: Catalog) -> bool:
        """Whether the other one has the same definitions."""
        return vars(self) == vars(other)

    def uids(self, db: str, name: str) -> tuple[int, ...]:
        """The uid of the table of that name; for a child table its own uid and its super table's. Empty if
        there is no such table."""
        found = self.find(db, name)
        if found is None:
            return ()
        table, child = found
        return (table.uid,) if child is None else (child.uid, table.uid)

    def privileges(self) -> Iterator[tuple[str, str, str, str]]:
        """(user, privilege, database, table) of all users. ``*`` means all databases, an empty table all
        tables of the database."""
        for user in self.users.values():
            if user.superuser:
                yield user.name, "all", "*", ""
        for granted in self.grants.values():
            kinds = (
                ("read", granted.read, granted.read_tables),
                ("write", granted.write, granted.write_tables),
            )
            for kind, databases, tables in kinds:
                for db in databases:
                    yield granted.user, kind, db, ""
                for table in tables:
                    if table.uid in self.uids(table.db, table.name)[:1]:
                        yield granted.user, kind, table.db, table.name

    def children_of(self, table: Table) -> Iterator[Child]:
        yield from self.family.get((table.db, table.name), {}).values()


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)
