"""Devices with rows, SELECT over them on DuckDB, and the rows of the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.unit.plan.conftest import World

from millrace_core.catalog import Catalog, Record, encode, key_of
from millrace_core.dialect.iotdb import parse
from millrace_core.dialect.iotdb.paths import read_path, write_path
from millrace_core.dialect.iotdb.schema import TABLE, Schema, extended, new_child, new_table
from millrace_core.dialect.iotdb.select.assemble import Result, assemble
from millrace_core.dialect.iotdb.select.into import check_types, goals, written
from millrace_core.dialect.iotdb.select.lower import Query, lower
from millrace_core.dialect.iotdb.statements import Select
from millrace_core.dialect.iotdb.times import TimeContext
from millrace_core.dialect.iotdb.values import fit, rows_by_columns
from millrace_core.model.device import Device
from millrace_core.model.revisions import altered
from millrace_core.model.schema import Database

SESSION = TimeContext(1_767_225_600_000_000_000)


class Plant:
    """Devices with rows, and the means to ask for them."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.worlds: dict[str, World] = {}

    def put(self, record: Record) -> None:
        self.catalog.apply(key_of(record), encode(record))

    def database(self, name: str) -> None:
        self.put(Database(name))
        self.worlds[name] = World(catalog=self.catalog)

    def series(self, device: str, types: Mapping[str, str]) -> Device:
        schema = Schema(self.catalog)
        db = schema.database_of(read_path(device))
        assert db is not None
        known = self.catalog.devices.get((db, device)) or Device(db, device)
        wanted = [(name, type_) for name, type_ in types.items() if known.find(name) is None]
        made, columns = extended(known, wanted, schema.table(db))
        table = schema.table(db)
        if table is None:
            self.put(new_table(db, 7, columns, 0))
        elif columns:
            self.put(altered(table, (*table.columns, *columns), table.tags, {}))
        self.put(new_child(db, device, 0, 0))
        self.put(msgspec.structs.replace(made, table=7))
        return made

    def write(self, device: str, rows: Sequence[Mapping[str, Any]], **types: str) -> None:
        """Rows with ``time``; the series are DOUBLE unless said otherwise."""
        names = {name: types.get(name, "DOUBLE") for row in rows for name in row if name != "time"}
        made = self.series(device, names)
        table = self.catalog.tables[made.db, TABLE]
        for row in rows:
            cells: dict[str, Any] = dict.fromkeys((c.name for c in table.columns), None)
            cells |= {one.column: row[one.measurement] for one in made.series if one.measurement in row}
            cells |= {"time": row["time"], "device": device, "tbname": device}
            stored = self.worlds[made.db].rows.setdefault(TABLE, [])
            there = next((r for r in stored if (r["tbname"], r["time"]) == (device, row["time"])), None)
            if there is None:
                stored.append(cells)
            else:
                there |= {name: cell for name, cell in cells.items() if cell is not None}

    def __call__(self, sql: str, **more: Any) -> Result:
        select = parse(sql)
        assert isinstance(select, Select)
        return self.answer(lower(select, Schema(self.catalog), SESSION, **more))

    def into(self, select: Select, **more: Any) -> None:
        """Run SELECT … INTO, and write what comes."""
        schema = Schema(self.catalog)
        query = lower(select, schema, SESSION, **more)
        found = goals(query, schema)
        check_types(found, schema)
        for rows in written(self.answer(query), found):
            if schema.database_of(rows.device) is None:
                self.database(write_path(rows.device[:2]))
            name = write_path(rows.device)
            made = self.series(name, rows.types)
            types = {one.measurement: one.type for one in made.series}
            columns = {n: [fit(v, types[n], SESSION) for v in vs] for n, vs in rows.columns.items()}
            for kind in rows_by_columns(rows.times, columns):
                cells = [dict(zip(kind, row, strict=True)) for row in zip(*kind.values(), strict=True)]
                self.write(name, cells, **types)

    def answer(self, query: Query) -> Result:
        answers = []
        for fetch in query.fetches:
            world = self.worlds[fetch.db]
            table = self.catalog.tables[fetch.db, TABLE]
            for row in world.rows.get(TABLE, []):
                for column in table.columns:
                    row.setdefault(column.name, None)
            answers.append(world.query(fetch.sql))
        return assemble(query, answers)


def rows(result: Result) -> list[tuple[Any, ...]]:
    """(device?, time?, values …) of each row."""
    columns: list[Sequence[Any]] = [part for part in (result.devices, result.times) if part is not None]
    return list(zip(*columns, *result.values, strict=True))


# -- the seed's rows -----------------------------------------------------------------------------------------

NAMES = ("root.ln.wf02.wt02", "root.ln.wf02.wt01", "root.ln.wf01.wt02", "root.ln.wf01.wt01")
AT = 1_620_742_680_000  # 2021-05-11T22:18:00+08:00
SEED = [
    (14_598, 121, 72, 183, 115), (19_941, 0, 68, 68, 103), (24_949, 122, 45, 11, 14),
    (29_967, 47, 14, 59, 181), (34_979, 182, 113, 29, 180), (39_990, 42, 11, 52, 19),
    (44_995, 78, 38, 123, 52), (49_999, 137, 172, 135, 193), (55_003, 16, 124, 183, 18),
]  # fmt: skip


@pytest.fixture
def seed() -> Plant:
    made = Plant()
    made.database("root.ln")
    for place, name in enumerate(NAMES, 1):
        made.write(name, [{"time": AT + row[0], "temperature": float(row[place])} for row in SEED])
    return made
