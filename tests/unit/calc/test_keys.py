"""Groups by columns and expressions, calculated: ``%%trows`` has the group's rows only, tags and sub-tables
say its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from calc_svc.jobs.counts import without_beginning
from millrace_core.catalog import StreamEntry
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.store.place import place_of
from millrace_core.trigger.groups.groups import part_of
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent

from .conftest import StoredTables

INT, TEXT = DataType("INT"), DataType("VARCHAR", 8)
SOURCE = Table(
    "d", "src", "super", 7, "ms",
    (Column("ts", TIMESTAMP), Column("v", INT), Column("name", TEXT), Column("f", DataType("FLOAT")),
     Column("on", DataType("BOOL")), Column("at", TIMESTAMP)),
    (Column("site", INT),),
)  # fmt: skip


class Desk(StoredTables):
    """One stream over ``src``, which has two children."""

    def __init__(self, folder: Path, duck: Any, partition: str, into: str = "o", what: str = "") -> None:
        children = [Child("d", "src", "d1", (1,)), Child("d", "src", "d2", (2,))]
        super().__init__(folder, duck, Database("d"), SOURCE, *children)
        stored = self.store.table(SOURCE)
        for child in children:
            stored.register(child)
        front = FRONT_ENDS["tdengine"]
        sql = (
            f"CREATE STREAM s INTO {into} AS SELECT _wstart AS ws, count(*) AS n, sum(v) AS s{what} FROM src "
        )
        spec = front.lower(front.parse(f"{sql} {partition} INTERVAL(1m)"), self.catalog.catalog, "d", "UTC")
        columns = tuple(Column(c.name, c.type) for c in self.calculator.plans.of(spec).result)
        output = msgspec.structs.replace(spec.output, columns=columns)
        self.spec = msgspec.structs.replace(spec, uid=1, output=output)
        made = Table("d", "o", "super", 12, "ms", columns, tuple(tag.column for tag in output.tags))
        self.learn(made, StreamEntry(self.spec, "Running", 0, 1))
        self.store.open(made)
        self._offset = 0

    def write(self, child: str, *rows: dict[str, Any]) -> None:
        places = np.array([place_of(0, self._offset)], dtype=np.int64)
        self._offset += 1
        self.store.table(SOURCE).take([child.encode()], [msgspec.json.encode(rows)], places)
        self.store.table(SOURCE).advance({0: self._offset})

    def run(self, *groups: Group) -> list[dict[str, Any]]:
        events = [TriggerEvent(str(g.id), "CLOSE", "LIVE", g, 0, 60_000, 1, 0) for g in groups]
        product = self.jobs.run(1, [TriggerBatch(1, 0, 0, 1, {}, events)])
        assert product.status is None, product.status
        return [{"key": m.key.decode(), **json.loads(m.value)} for m in product.messages]


WHOLE = Group(0, (), None)


def of(values: tuple[Any, ...], base: Group = WHOLE) -> Group:
    return part_of(base, 1, values)


def results(found: list[dict[str, Any]], tag: str) -> dict[Any, tuple[int, int]]:
    return {one["tags"][tag]: (row["n"], row["s"]) for one in found for row in one["rows"]}


def test_rows_and_tags_of_each_key(tmp_path: Path, duck: Any) -> None:
    into = "o TAGS (g VARCHAR(16)) SUBTABLE(concat('x-', g))"
    desk = Desk(tmp_path, duck, "PARTITION BY concat('g-', cast(v AS VARCHAR(8))) AS g", into)
    desk.write("d1", {"ts": 1, "v": 1}, {"ts": 2, "v": 2}, {"ts": 60_000, "v": 1})
    desk.write("d2", {"ts": 1, "v": 1}, {"ts": 3, "v": 2}, {"ts": 4, "v": 2}, {"ts": 5, "v": None})
    groups = [of(("g-1",)), of(("g-2",)), of((None,))]
    found = desk.run(*groups)
    assert results(found, "g") == {"g-1": (2, 2), "g-2": (3, 6), None: (1, None)}
    assert all(one["key"].startswith(("x-g-1_o_", "x-g-2_o_", "t_")) for one in found)
    for group in groups:  # alone, as together
        ((name, value),) = results(desk.run(group), "g").items()
        assert results(found, "g")[name] == value


@pytest.mark.parametrize(("column", "cells", "tag"), [
    ("v", [1, 2], "INT"), ("name", ["a", "it's"], "VARCHAR(8)"), ("f", [0.1, 2.5], "FLOAT"),
    ("on", [True, False], "BOOL"), ("at", [5, 7], "TIMESTAMP"),
])  # fmt: skip
def test_keys_of_every_type(tmp_path: Path, duck: Any, column: str, cells: list[Any], tag: str) -> None:
    desk = Desk(tmp_path, duck, f"PARTITION BY `{column}` AS k", f"o TAGS (k {tag})")
    rows = [{"ts": ts, "v": 1, column: cell} for ts, cell in enumerate([*cells, None, cells[0]])]
    desk.write("d1", *rows)
    if column == "f":
        cells = [float(np.float32(cell)) for cell in cells]
    found = desk.run(*(of((cell,)) for cell in [*cells, None]))
    assert sorted(n for n, _ in results(found, "k").values()) == [1, 1, 2]
    assert len(found) == 3 and len({one["key"] for one in found}) == 3


def test_a_table_and_a_column(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "PARTITION BY tbname AS t, v AS k", "o TAGS (t VARCHAR(8), k INT)")
    for child in ("d1", "d2"):
        desk.write(child, {"ts": 1, "v": 1}, {"ts": 2, "v": 2}, {"ts": 3, "v": 2})
    bases = [Group(71, ("d1",), "d1"), Group(72, ("d2",), "d2")]
    found = desk.run(*(of((v,), base) for base in bases for v in (1, 2)))
    counts = {(one["tags"]["t"], one["tags"]["k"]): one["rows"][0]["n"] for one in found}
    assert counts == {("d1", 1): 1, ("d1", 2): 2, ("d2", 1): 1, ("d2", 2): 2}


def test_a_tag_and_a_column(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "PARTITION BY v AS k, site AS t", "o TAGS (t INT, k INT)")
    for child in ("d1", "d2"):
        desk.write(child, {"ts": 1, "v": 1}, {"ts": 2, "v": 2})
    bases = [Group(71, (1,), None), Group(72, (2,), None)]
    found = desk.run(*(of((v,), base) for base in bases for v in (1, 2)))
    assert {(one["tags"]["t"], one["tags"]["k"]): one["rows"][0]["n"] for one in found} == dict.fromkeys(
        [(1, 1), (1, 2), (2, 1), (2, 2)], 1
    )


def test_a_window_without_a_row_of_its_key_at_its_beginning_has_lost_it(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "PARTITION BY tbname, v")
    spec = msgspec.structs.replace(
        desk.spec, trigger=FRONT_ENDS["tdengine"].lower(
            FRONT_ENDS["tdengine"].parse(
                "CREATE STREAM s INTO p AS SELECT count(*) FROM src PARTITION BY tbname, v SESSION(ts, 5s)"
            ), desk.catalog.catalog, "d", "UTC",
        ).trigger,
    )  # fmt: skip
    desk.write("d1", {"ts": 1, "v": 1}, {"ts": 2, "v": 2})
    base = Group(71, ("d1",), "d1")
    events = [
        TriggerEvent(f"{v}@{ts}", "CLOSE", "RECALC", of((v,), base), ts, 9, 1, 0)
        for v in (1, 2)
        for ts in (1, 2)
    ]
    assert without_beginning(desk.store.table(SOURCE), spec, events) == {"1@2", "2@1"}
