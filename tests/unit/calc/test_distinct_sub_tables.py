"""Sub-tables of a stream with distinct names and converted tags (seed 002; SEMANTICS-FRONTENDS, S2 "Result
table")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.queries.running import Query
from millrace_core.catalog import StreamEntry
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.model.schema import MAX_NAME, Child, Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.sub_tables import group_id, sub_table
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.rows.decoder import RowDecoder

from .conftest import StoredTables

INT = DataType("INT")
TEXT = DataType("VARCHAR", 20)
SOURCE = Table(
    "d", "src", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)),
    (Column("site", INT), Column("place", TEXT)),
)  # fmt: skip
TIME, COUNT = Column("ws", TIMESTAMP), Column("n", BIGINT)
WIDE = Table(
    "d", "wide", "super", 11, "us",
    (Column("at", TIMESTAMP), Column("x", TEXT), Column("y", INT)),
    (Column("origin", INT), Column("extra", INT)),
)  # fmt: skip
MEMBERS = {"d1": (1, "12"), "d2": (2, "hall")}


class Desk(StoredTables):
    """One stream over ``src``, whose result table exists."""

    def __init__(self, folder: Path, duck: Any, into: str, query: str) -> None:
        children = [Child("d", "src", name, tags) for name, tags in MEMBERS.items()]
        super().__init__(folder, duck, Database("d"), SOURCE, WIDE, *children)
        for child in children:
            self.store.table(SOURCE).register(child)
        self.spec = self._made(f"CREATE STREAM s INTO {into} AS {query}")
        self.learn(StreamEntry(self.spec, "Running", 0, 1))

    def _made(self, sql: str) -> StreamSpec:
        front = FRONT_ENDS["tdengine"]
        statement = front.parse(sql)
        spec = front.lower(statement, self.catalog.catalog, "d", "UTC")
        plan = self.calculator.plans.of(spec)
        output = spec.output
        assert output is not None
        target = self.catalog.tables().get((output.db, output.table))
        columns = tuple(Column(column.name, column.type) for column in plan.result)
        if target is not None:
            named = [column.name.text for column in statement.columns] or [c.name for c in target.columns]
            columns = tuple(column for name in named if (column := target.column(name)))
        spec = msgspec.structs.replace(
            spec, uid=1, result=plan.result, output=msgspec.structs.replace(output, columns=columns)
        )
        if target is None:
            made = Table("d", output.table, "super", 12, "ms", columns, tuple(t.column for t in output.tags))
            self.learn(made)
            self.store.open(made)
        return spec

    def run(self, *groups: Group) -> dict[str, Any]:
        events = [TriggerEvent(str(g.id), "CLOSE", "LIVE", g, 60_000, 120_000, 1, 0) for g in groups]
        product = self.jobs.run(1, [TriggerBatch(1, 0, 0, 1, {}, events)])
        assert product.status is None, product.status
        return {message.key.decode(): json.loads(message.value) for message in product.messages}


D1, D2 = Group(77, ("d1",), "d1"), Group(78, ("d2",), "d2")
COUNTED = "SELECT _wstart AS ws, count(*) AS n FROM src"


def test_a_table_s_uid_is_the_id_of_its_group(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "o", f"{COUNTED} PARTITION BY tbname INTERVAL(1m)")
    found = desk.run(D1, D2)
    assert set(found) == {sub_table("o", 77), sub_table("o", 78)}
    assert found[sub_table("o", 77)]["tags"] == {"groupid": 77}
    assert duck.only.jobs == 1, "names that are made up need no calculation"


def test_the_one_group_of_an_ungrouped_stream_has_id_0(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "o", f"{COUNTED} INTERVAL(1m)")
    assert desk.run(Group(0, (), None)) == {
        sub_table("o", 0): {"tags": {"groupid": 0}, "rows": [{"ws": 60_000, "n": 0}]}
    }


def test_the_id_of_other_keys_is_of_their_values_and_is_stored_whole(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "o", f"{COUNTED} PARTITION BY site, place INTERVAL(1m)")
    groups = [Group(site, (site, "hall"), None) for site in range(8)]
    found = desk.run(*groups)
    ids = [group_id((site, "hall"), partitioned=True) for site in range(8)]
    assert max(ids) >= 1 << 63, "one needs the 64th bit"
    assert {value["tags"]["groupid"] for value in found.values()} == set(ids)
    assert set(found) == {sub_table("o", number) for number in ids}
    table = desk.catalog.tables()["d", "o"]
    decoded = RowDecoder(table).decode([json.dumps(value).encode() for value in found.values()])
    assert not decoded.bad


def test_a_name_that_is_given_ends_with_table_and_group(tmp_path: Path, duck: Any) -> None:
    into = "o TAGS (dev VARCHAR(9), far VARCHAR(30)) SUBTABLE(concat('agg-', dev))"
    by = "PARTITION BY tbname AS dev, concat('from-', tbname) AS far"
    desk = Desk(tmp_path, duck, into, f"{COUNTED} {by} INTERVAL(1m)")
    found = desk.run(D1)
    assert found == {
        "agg-d1_o_77": {"tags": {"dev": "d1", "far": "from-d1"}, "rows": [{"ws": 60_000, "n": 0}]}
    }


@pytest.mark.parametrize("expression", ["''", "CASE WHEN dev = 'd1' THEN '' END"])
def test_an_empty_name_or_none_is_made_up(tmp_path: Path, duck: Any, expression: str) -> None:
    query = f"{COUNTED} PARTITION BY tbname AS dev INTERVAL(1m)"
    found = Desk(tmp_path, duck, f"o SUBTABLE({expression})", query).run(D1, D2)
    assert set(found) == {sub_table("o", 77), sub_table("o", 78)}


def test_a_long_name_is_cut_to_bytes(tmp_path: Path, duck: Any) -> None:
    query = f"{COUNTED} PARTITION BY tbname AS dev INTERVAL(1m)"
    (name,) = Desk(tmp_path, duck, f"o SUBTABLE(concat('{'ö' * 100}', dev))", query).run(D1)
    assert name == "ö" * (MAX_NAME // 2)


def test_results_and_tags_take_the_types_of_a_table_that_exists(tmp_path: Path, duck: Any) -> None:
    query = "SELECT _wstart, avg(v) AS a, count(*) AS n FROM src PARTITION BY place AS origin INTERVAL(1m)"
    desk = Desk(tmp_path, duck, "wide (at, y, x) TAGS (origin)", query)
    found = desk.run(Group(5, ("12",), None), Group(6, ("hall",), None))
    tags = {value["tags"]["origin"] for value in found.values()}
    assert tags == {12, None}, "'hall' is no number"
    assert all(value["tags"]["extra"] is None for value in found.values()), "nothing is mapped to it"
    assert [value["rows"] for value in found.values()] == [[{"at": 60_000_000, "y": None, "x": "0"}]] * 2


def test_columns_that_are_not_named_are_left_out(tmp_path: Path, duck: Any) -> None:
    query = "SELECT _wstart, count(*) AS n FROM src INTERVAL(1m)"
    found = Desk(tmp_path, duck, "wide (at, x)", query).run(Group(0, (), None))
    assert found == {
        sub_table("wide", 0): {
            "tags": {"origin": None, "extra": None}, "rows": [{"at": 60_000_000, "x": "0"}],
        }
    }  # fmt: skip


def test_the_tag_of_the_ids_has_a_second_name(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, "o", f"{COUNTED} PARTITION BY tbname INTERVAL(1m)")
    desk.store.table(desk.catalog.tables()["d", "o"]).register(Child("d", "o", "t_1", (77,)))
    for name in ("groupId", "group_id"):
        sql = f"SELECT DISTINCT tbname, {name} FROM o WHERE {name} = 77"
        plan, result = desk.calculator.query(Query(sql, 1.0), "d", "UTC", 0)
        assert plan.result[1].name == name.lower()
        assert result.column(0).to_pylist() == []
