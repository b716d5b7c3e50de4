"""Databases, devices and series in the catalog (docs/decisions, "A device is a child table").

A database ``root.plant`` is the catalog's database of that name. It has one super table ``devices``, with the
time and a column for each measurement of its devices. If devices give one measurement different types, there
is a column for each type. A device is the child table whose name is the device's path; its own record says
which of the columns are its series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from millrace_core.catalog import Catalog
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.paths import MANY, ROOT, TIMES, Node, Pattern, read_path, write_path
from millrace_core.errors import Position
from millrace_core.model.device import Device, Series
from millrace_core.model.schema import MAX_NAME, Child, Column, Database, Table
from millrace_core.model.types import BIGINT, BOOL, DOUBLE, MAX_LENGTH, TIMESTAMP, DataType

TABLE, TIME, TAG = "devices", "time", "device"
COLUMN_TYPES: dict[str, DataType] = {
    "BOOLEAN": BOOL, "INT32": DataType("INT"), "INT64": BIGINT, "FLOAT": DataType("FLOAT"), "DOUBLE": DOUBLE,
    "TEXT": DataType("VARCHAR", MAX_LENGTH), "STRING": DataType("VARCHAR", MAX_LENGTH),
    "TIMESTAMP": TIMESTAMP, "DATE": DataType("VARCHAR", 10), "BLOB": DataType("VARCHAR", MAX_LENGTH),
}  # fmt: skip
"""IoTDB's types, and the types of their columns. A DATE is stored as ``2026-01-31``, a BLOB as ``0x`` and
hexadecimal digits, because a VARBINARY can hold only text."""
_TAKEN = frozenset({TIME, TAG, "tbname"})
_LEADING = ROOT + "."
_ALL = (Node(ROOT), Node(MANY))


def is_database(database: Database) -> bool:
    return database.name.startswith(_LEADING)


Knows = Callable[[str, str | None], bool]
"""Whether somebody may know of a device of a database; without a device: of the database."""


class Schema:
    """IoTDB's part of a catalog, by path. ``knows``: which part of it whoever asks may know of; None: all."""

    def __init__(self, catalog: Catalog, knows: Knows | None = None) -> None:
        self.catalog = catalog
        self._knows = knows

    @property
    def restricted(self) -> bool:
        """Whether some devices may be hidden from whoever asks."""
        return self._knows is not None

    def _known(self, db: str, device: str | None = None) -> bool:
        return self._knows is None or self._knows(db, device)

    # -- databases -------------------------------------------------------------------------------------------

    def databases(self, pattern: Pattern | None = None) -> list[str]:
        """The databases that a pattern matches, ordered by name."""
        names = sorted(name for name, one in list(self.catalog.databases.items()) if is_database(one))
        found = [name for name in names if pattern is None or pattern.matches(read_path(name))]
        return list(filter(self._known, found))

    def database_of(self, device: Sequence[str]) -> str | None:
        """The database of the device with these nodes; None: there is none yet."""
        for count in range(2, len(device) + 1):
            name = write_path(device[:count])
            if name in self.catalog.databases and self._known(name):
                return name
        return None

    def check_new(self, path: Pattern) -> str:
        """The name of a database that is to be made.

        :raises IotdbError: DATABASE_ALREADY_EXISTS if it exists, or one above or below it does.
        """
        nodes = path.names
        name = write_path(nodes)
        above = self.database_of(nodes)
        below = next((one for one in self.databases() if read_path(one)[: len(nodes)] == nodes), None)
        if above is not None or below is not None:
            there = above or below
            message = f"{name} has already been created as database"
            if there != name:
                message = f"{name} cannot be a database: {there} is one, and databases cannot be nested"
            raise IotdbError(Status.DATABASE_ALREADY_EXISTS, message, path.position)
        return name

    # -- devices and series ----------------------------------------------------------------------------------

    def device(self, nodes: Sequence[str]) -> Device | None:
        db = self.database_of(nodes)
        return None if db is None else self.named(db, write_path(nodes))

    def named(self, db: str, name: str) -> Device | None:
        """The device of that path, of this database."""
        found = self.catalog.devices.get((db, name))
        there = found is not None and self._stands(found) and self._known(db, name)
        return found if there else None

    def _stands(self, device: Device) -> bool:
        """Whether the device's tables are still those it was made with: the other dialect may have
        dropped them."""
        table = self.catalog.tables.get((device.db, TABLE))
        child = self.catalog.children.get((device.db, device.name))
        return (
            table is not None and child is not None
            and (table.uid, child.incarnation) == (device.table, device.incarnation)
        )  # fmt: skip

    def devices(self, pattern: Pattern | None = None) -> list[Device]:
        """The devices that a pattern matches, ordered by path."""
        if pattern is not None and not pattern.wild:
            found = self.device(pattern.names)
            return [] if found is None else [found]
        all_ = list(self.catalog.devices.values())
        if pattern is not None and pattern.nodes != _ALL:
            matches = text_regex(pattern.nodes).fullmatch
            all_ = [device for device in all_ if matches(device.name)]
        if self._knows is not None:
            all_ = [device for device in all_ if self._known(device.db, device.name)]
        return sorted(filter(self._stands, all_), key=_by_name)

    def series(self, pattern: Pattern) -> list[tuple[Device, Series]]:
        """The series that a pattern matches, ordered by path."""
        *above, last = pattern.nodes
        found = []
        heads = [Pattern(tuple(above))] if above else []
        if last == Node(MANY):
            heads.append(pattern)
        devices = {device.name: device for head in heads for device in self.devices(head)}
        for name in sorted(devices):
            device = devices[name]
            for series in by_name(device):
                if last.wild and last.text != MANY:
                    if Pattern((last,)).matches((series.measurement,)):
                        found.append((device, series))
                elif last.wild or series.measurement == last.text:
                    found.append((device, series))
        return found

    def table(self, db: str) -> Table | None:
        return self.catalog.tables.get((db, TABLE))


def _by_name(device: Device) -> str:
    return device.name


def by_name(device: Device) -> list[Series]:
    """The series of a device, ordered by measurement."""
    return sorted(device.series, key=lambda series: series.measurement)


def path_of(device: Device, series: Series) -> str:
    return path_at(device.name, series)


def path_at(device: str, series: Series) -> str:
    return f"{device}.{write_path([series.measurement])}"


# -- patterns over names -------------------------------------------------------------------------------------

_ANY_NODE = r"(?:[^.`]+|`(?:[^`]|``)+`)"


def text_regex(nodes: Sequence[Node]) -> re.Pattern[str]:
    """A pattern as a regular expression over names of devices, so that 100,000 names need not be split into
    nodes. It is valid in Java too, and has no capturing groups."""
    return re.compile("[.]".join(map(_part, nodes)))


def _part(node: Node) -> str:
    if not node.wild:
        return re.escape(write_path([node.text]))
    if node.text == MANY:
        return f"{_ANY_NODE}(?:[.]{_ANY_NODE})*"
    if node.text == "*":
        return _ANY_NODE
    part = "[^.`]*".join(re.escape(text) for text in node.text.split("*"))
    return f"`?{part}`?"


# -- what is to be made --------------------------------------------------------------------------------------


def new_table(db: str, uid: int, columns: Sequence[Column], created: int) -> Table:
    """The super table of a database's devices."""
    tag = Column(TAG, DataType("VARCHAR", MAX_NAME))
    return Table(db, TABLE, "super", uid, "ms", (Column(TIME, TIMESTAMP), *columns), (tag,), created)


def new_child(db: str, name: str, incarnation: int, created: int) -> Child:
    """The child table of a device. :raises IotdbError: ILLEGAL_PATH if the path is too long for its name."""
    if len(name.encode()) > MAX_NAME:
        raise IotdbError(
            Status.ILLEGAL_PATH, f"the path of the device {name[:64]}… is longer than {MAX_NAME} bytes"
        )
    return Child(db, TABLE, name, (name,), incarnation, created)


def check_measurement(name: str, position: Position | None = None) -> None:
    """:raises IotdbError: ILLEGAL_PATH for a name that no INSERT could write to."""
    if name.lower() in TIMES:
        raise IotdbError(
            Status.ILLEGAL_PATH,
            f"{name} is reserved for the time of the rows: choose another name for the series",
            position,
        )


def extended(
    device: Device, wanted: Iterable[tuple[str, str]], table: Table | None
) -> tuple[Device, tuple[Column, ...]]:
    """The device with these further series (measurement, IoTDB's type), and the columns that the table of
    devices (None: it does not exist) lacks for them.

    :raises IotdbError: ILLEGAL_PATH, see :func:`check_measurement`.
    """
    columns = {column.name: column.type for column in table.columns} if table is not None else {}
    used = {one.column for one in device.series}
    series, added = list(device.series), []
    for measurement, type_ in wanted:
        check_measurement(measurement)
        column = _column(measurement, type_, columns, used)
        if column not in columns:
            columns[column] = COLUMN_TYPES[type_]
            # no name contains a NUL: no dropped column can have stored its values under this
            stored = f"{column}\0{table.version + 1}" if table is not None else ""
            added.append(Column(column, COLUMN_TYPES[type_], stored=stored))
        used.add(column)
        series.append(Series(measurement, type_, column))
    return msgspec.structs.replace(device, series=tuple(series)), tuple(added)


def _column(measurement: str, type_: str, columns: dict[str, DataType], used: set[str]) -> str:
    """The measurement's name, if it is free or names a column of that type; else the name with the type."""
    candidates = [measurement] if measurement not in _TAKEN and measurement[0] != "_" else []
    candidates.append(f"{measurement}:{type_}")
    count = 1
    while True:
        for name in candidates:
            if name not in used and columns.get(name, COLUMN_TYPES[type_]) == COLUMN_TYPES[type_]:
                return name
        count += 1
        candidates = [f"{measurement}:{type_}:{count}"]
