"""A device of IoTDB as a child table, and as a table of its own: what ``root.**`` costs, in one process.

    .venv/bin/python -m bench.iotdb_devices [devices]

Times are of one core; nothing is read but the catalog: what is compared is what a query has to name and plan
before a row is looked at.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from millrace_core.catalog import Catalog, Record, encode, key_of
from millrace_core.dialect.iotdb import parse
from millrace_core.dialect.iotdb.schema import Schema, extended, new_child, new_table
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.dialect.iotdb.statements import Select
from millrace_core.dialect.iotdb.times import TimeContext
from millrace_core.model.device import Device
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import DOUBLE, TIMESTAMP
from millrace_core.plan import plan_query

DB = "root.plant"
SESSION = TimeContext(1_767_225_600_000_000_000)
TRIED = 200
T = TypeVar("T")


def timed(what: str, work: Callable[[], T], times: int = 1) -> T:
    begin = time.perf_counter()
    found = work()
    print(f"{what}: {(time.perf_counter() - begin) * times * 1000:,.1f} ms")
    return found


def catalog_of(records: list[tuple[bytes, bytes]]) -> Catalog:
    found = Catalog()
    for key, value in records:
        found.apply(key, value)
    return found


def record(one: Record) -> tuple[bytes, bytes]:
    return key_of(one), encode(one)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    names = [f"{DB}.line{i % 100}.d{i}" for i in range(count)]
    series = [("temperature", "DOUBLE"), ("pressure", "DOUBLE")]
    first, columns = extended(Device(DB, names[0], table=7), series, None)
    children = [record(Database(DB)), record(new_table(DB, 7, columns, 0))]
    for name in names:
        children.append(record(new_child(DB, name, 0, 0)))
        children.append(record(Device(DB, name, first.series, table=7)))
    catalog = timed(f"{count:,} child tables: reading the catalog", lambda: catalog_of(children))
    for sql in (
        "SELECT count(temperature) FROM root.** ALIGN BY DEVICE",
        "SELECT count(temperature) FROM root.plant.line7.* ALIGN BY DEVICE",
        "SELECT temperature FROM root.plant.line7.d7",
    ):
        select = parse(sql)
        assert isinstance(select, Select)
        query = timed(f"  {sql}: lowering", lambda s=select: lower(s, Schema(catalog), SESSION))  # type: ignore[misc]
        for fetch in query.fetches:
            timed(
                f"    1 of {len(query.fetches)} queries, {len(fetch.sql):,} characters: planning",
                lambda f=fetch: plan_query(f.sql, DB, catalog, "UTC", SESSION.now),  # type: ignore[misc]
            )

    key = Column("time", TIMESTAMP)
    own = (key, Column("temperature", DOUBLE), Column("pressure", DOUBLE))
    tables = [record(Database(DB))]
    tables += [record(Table(DB, name, "normal", i, "ms", own)) for i, name in enumerate(names, 1)]
    catalog = timed(f"{count:,} tables of their own: reading the catalog", lambda: catalog_of(tables))
    part = names[:TRIED]
    timed(
        f"  {count:,} queries, one for each ({TRIED} measured): planning",
        lambda: [
            plan_query(f"SELECT count(temperature) FROM `{DB}`.`{name}`", DB, catalog, "UTC", SESSION.now)
            for name in part
        ],
        count // TRIED,
    )
    print(f"  {count:,} topics, {count:,} folders of files, a job for each query")


if __name__ == "__main__":
    main()
