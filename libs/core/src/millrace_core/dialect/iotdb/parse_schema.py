"""CREATE, DELETE, SHOW and COUNT of databases, devices and series."""

from __future__ import annotations

from millrace_core.dialect.iotdb.codes import IotdbError, Status, semantic, syntax, unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import Pattern
from millrace_core.dialect.iotdb.statements import (
    Count,
    CreateDatabase,
    CreateTimeseries,
    DeleteDatabase,
    DeleteTimeseries,
    Listed,
    NewSeries,
    Show,
)
from millrace_core.errors import Position

TYPES = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "TEXT", "STRING", "TIMESTAMP", "DATE", "BLOB")
_STORAGE = ("encoding", "compressor", "compression")


def create_database(c: Cursor) -> CreateDatabase:
    path = c.full_path("a database")
    if len(path.nodes) < 2:
        raise IotdbError(
            Status.ILLEGAL_PATH, "root is not a database: a database needs a node below root", path.position
        )
    if c.at("with"):
        raise unsupported("a database's attributes (WITH) are not supported yet", c.here())
    return CreateDatabase(path)


def delete_database(c: Cursor) -> DeleteDatabase:
    return DeleteDatabase(c.separated(lambda: c.path("a database")))


def create_timeseries(c: Cursor) -> CreateTimeseries:
    path = c.full_path("a series")
    device, measurement = _split(path)
    c.take("with")
    where = c.here()
    c.take("datatype", "=")
    series = NewSeries(measurement, _type(c), where)
    _storage(c)
    _no_more(c)
    return CreateTimeseries(device, (series,))


def create_aligned(c: Cursor) -> CreateTimeseries:
    device = c.full_path("a device")
    if len(device.nodes) < 2:
        raise IotdbError(Status.ILLEGAL_PATH, "root is not a device", device.position)
    series = c.listed(lambda: _aligned_series(c))
    names = [one.measurement for one in series]
    for place, one in enumerate(series):
        if one.measurement in names[:place]:
            raise semantic(f"the measurement {one.measurement} is given twice", one.position)
    _no_more(c)
    return CreateTimeseries(device, series, aligned=True)


def _aligned_series(c: Cursor) -> NewSeries:
    where = c.here()
    measurement = c.name("a measurement")
    c.take("with")
    c.take("datatype", "=")
    found = NewSeries(measurement, _type(c), where)
    _storage(c)
    return found


def _type(c: Cursor) -> str:
    where = c.here()
    name = c.name("a data type").upper()
    if name not in TYPES:
        raise syntax(f"unknown data type {name}; known types: {', '.join(TYPES)}", where)
    return name


def _storage(c: Cursor) -> None:
    """Skip ENCODING and COMPRESSOR. They say how IoTDB writes its files, and have no effect here."""
    while True:
        place = c.place
        c.take(",")
        c.take("with")
        if not any(c.at(word, "=") for word in _STORAGE):
            c.place = place
            return
        c.next()
        c.expect("=")
        c.name("a name")


def _no_more(c: Cursor) -> None:
    for word in ("tags", "attributes"):
        if c.at(word):
            raise unsupported(f"{word.upper()} of series are not supported yet", c.here())


def _split(path: Pattern) -> tuple[Pattern, str]:
    """Device and measurement."""
    if len(path.nodes) < 3:
        raise IotdbError(
            Status.ILLEGAL_PATH, f"{path} is not a series: it needs a device and a measurement", path.position
        )
    return Pattern(path.nodes[:-1], path.position), path.nodes[-1].text


def delete_timeseries(c: Cursor) -> DeleteTimeseries:
    return DeleteTimeseries(c.separated(lambda: c.path("a series")))


_WORDS: dict[str, Listed] = {
    "databases": "databases", "database": "databases", "devices": "devices", "timeseries": "timeseries",
}  # fmt: skip


def show(c: Cursor, word: str) -> Show:
    pattern = c.path("a pattern") if c.at("root") else None
    _no_condition(c)
    limit, offset = limits(c)
    return Show(_WORDS[word], pattern, limit, offset)


def count(c: Cursor) -> Count:
    word = c.one_of(*_WORDS)
    pattern = c.path("a pattern") if c.at("root") else None
    _no_condition(c)
    if c.at("group", "by"):
        raise unsupported("COUNT … GROUP BY LEVEL is not supported yet", c.here())
    return Count(_WORDS[word], pattern)


def _no_condition(c: Cursor) -> None:
    for words in (("where",), ("with",), ("order", "by"), ("details",)):
        if c.at(*words):
            raise unsupported(f"{' '.join(words).upper()} is not supported here yet", c.here())


def limits(c: Cursor) -> tuple[int | None, int]:
    """``LIMIT n OFFSET n``, in either order."""
    limit: int | None = None
    offset = 0
    seen: dict[str, Position] = {}
    while c.at("limit") or c.at("offset"):
        where = c.here()
        word = c.one_of("limit", "offset")
        if word in seen:
            raise syntax(f"{word.upper()} is given twice", where)
        seen[word] = where
        number = c.integer("a number of rows")
        if word == "limit":
            if number == 0:
                raise semantic("LIMIT must be at least 1", where)
            limit = number
        else:
            offset = number
    return limit, offset
