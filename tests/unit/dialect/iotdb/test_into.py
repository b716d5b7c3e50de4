"""SELECT … INTO: which series a column goes to, what is refused, and the rows that are written."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.unit.dialect.iotdb.conftest import SESSION, Plant, rows

from millrace_core.dialect.iotdb import IotdbError, Status, parse
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.dialect.iotdb.select.assemble import assemble
from millrace_core.dialect.iotdb.select.into import goals, written
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.dialect.iotdb.statements import Select


@pytest.fixture
def sg() -> Plant:
    """Two devices, of two series each, and a third one below another node."""
    made = Plant()
    made.database("root.sg")
    for name in ("root.sg.d1", "root.sg.d2"):
        made.write(name, [{"time": 1, "s1": 1, "s2": 2}, {"time": 2, "s1": 3}], s1="INT32", s2="DOUBLE")
    made.write("root.sg.hall.d3", [{"time": 1, "s1": 5, "t": "x"}], s1="INT32", t="TEXT")
    return made


def targets(plant: Plant, sql: str, **more: Any) -> list[str]:
    select = parse(sql)
    assert isinstance(select, Select)
    schema = Schema(plant.catalog)
    return [goal.path for goal in goals(lower(select, schema, SESSION, **more), schema)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("s1 INTO root.a.b(x) FROM root.sg.d1", ["root.a.b.x"]),
        ("s1 INTO root.a.b.x FROM root.sg.d1", ["root.a.b.x"]),
        # the pages on INTO of IoTDB's manual
        ("s1, s2 INTO root.copy.d1(t1), root.copy.d2(t1, t2), root.copy.d1(t2) FROM root.sg.d1, root.sg.d2",
         ["root.copy.d1.t1", "root.copy.d2.t1", "root.copy.d2.t2", "root.copy.d1.t2"]),
        ("s1, s2 INTO root.copy.d1(::), root.copy.d2(s1), root.copy.d1(${3}), root.copy.d2(::) "
         "FROM root.sg.d1, root.sg.d2",
         ["root.copy.d1.s1", "root.copy.d2.s1", "root.copy.d1.s2", "root.copy.d2.s2"]),
        ("d1.s1, d1.s2, d2.s1 INTO ::(s1_1, s2_2), root.${2}_copy.::(s3) FROM root.sg",
         ["root.sg.d1.s1_1", "root.sg.d1.s2_2", "root.d2_copy.d2.s3"]),
        ("* INTO root.bk.::(::) FROM root.sg.d1, root.sg.hall.d3",
         ["root.bk.d1.s1", "root.bk.d1.s2", "root.bk.hall.d3.s1", "root.bk.hall.d3.t"]),
        ("* INTO ::(backup_${3}) FROM root.sg.d1", ["root.sg.d1.backup_s1", "root.sg.d1.backup_s2"]),
        ("s1, s2 INTO root.backup.d1(s1, s2), root.backup.d2(::) FROM root.sg.d1, root.sg.d2 ALIGN BY DEVICE",
         ["root.backup.d1.s1", "root.backup.d1.s2", "root.backup.d2.s1", "root.backup.d2.s2"]),
        ("avg(s1), sum(s1) + sum(s2), count(s2) INTO root.agg_${2}.::(a, b, c) FROM root.sg.* "
         "ALIGN BY DEVICE",
         ["root.agg_d1.d1.a", "root.agg_d1.d1.b", "root.agg_d1.d1.c", "root.agg_d2.d2.a", "root.agg_d2.d2.b",
          "root.agg_d2.d2.c"]),
        ("* INTO ::(backup_${3}) FROM root.sg.d1 ALIGN BY DEVICE",
         ["root.sg.d1.backup_s1", "root.sg.d1.backup_s2"]),
        ("s1 + 1 INTO root.pre.::(s1) FROM root.sg.** ALIGN BY DEVICE",
         ["root.pre.d1.s1", "root.pre.d2.s1", "root.pre.hall.d3.s1"]),
        # what is quoted is meant as it stands
        ("s1 INTO root.a.`x${2}`(`::`) FROM root.sg.d1", ["root.a.`x${2}`.`::`"]),
        # devices pair in the order of FROM
        ("s1 INTO root.x.two(s), root.x.one(s) FROM root.sg.d2, root.sg.d1 ALIGN BY DEVICE",
         ["root.x.two.s", "root.x.one.s"]),
        ("count(s1), max_value(s1) INTO root.x.y(n, m) FROM root.sg.* GROUP BY LEVEL = 1",
         ["root.x.y.n", "root.x.y.m"]),
        # without patterns a target is of the item, there or not
        ("s1, s9, s2 INTO root.x.y(a, b, c) FROM root.sg.d1", ["root.x.y.a", "root.x.y.c"]),
        ("s1 INTO root.x.a(v), root.x.b(v), root.x.c(v) FROM root.sg.d1, root.sg.d9, root.sg.d2",
         ["root.x.a.v", "root.x.c.v"]),
        ("s1 INTO root.x.a(v), root.x.b(v) FROM root.sg.d9, root.sg.d2 ALIGN BY DEVICE", ["root.x.b.v"]),
        ("s1, s9 INTO root.x.a(v, w) FROM root.sg.* ALIGN BY DEVICE", None),
        ("s9 INTO root.x.a(v) FROM root.sg.*", []),
    ],
)  # fmt: skip
def test_where_columns_go(sg: Plant, sql: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(IotdbError, match="1 targets are named for 2 devices"):
            targets(sg, f"SELECT {sql}")
        return
    assert targets(sg, f"SELECT {sql}") == expected


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("s1, s2 INTO root.a.b(x) FROM root.sg.d1", "1 targets are named for 2 columns"),
        ("s1, s2 INTO root.a.b(x) FROM root.nowhere.d1", "1 targets are named for 2 columns"),
        ("s1 INTO root.a.b(x, y) FROM root.sg.d1", "2 targets are named for 1 columns"),
        ("* INTO root.a.b(::) FROM root.sg.d1", "1 targets are named for 2 columns"),
        ("s1, s2 INTO root.a.b(x, x) FROM root.sg.d1", "several columns would be written to root.a.b.x"),
        ("s1 INTO root.a.::(x), root.b.c(x) FROM root.sg.d1, root.sg.d2", "devices must have placeholders"),
        ("count(s1) INTO root.a.::(x) FROM root.sg.d1", "need ALIGN BY DEVICE"),
        ("count(s1) INTO root.a.b(::) FROM root.sg.d1", "measurements of aggregates"),
        ("count(s1) INTO root.a.::(::) FROM root.sg.* ALIGN BY DEVICE", "measurements of aggregates"),
        ("s1 + 1 INTO root.a.::(x) FROM root.sg.d1", "s1 + 1 is not a series"),
        ("s1 + 1 INTO root.a.::(::) FROM root.sg.* ALIGN BY DEVICE", "s1 + 1 is not a series"),
        ("s1 INTO root.${7}.b(x) FROM root.sg.d1", "not a node of root.sg.d1.s1, which has 4 nodes"),
        ("s1 INTO root.${" + "9" * 5000 + "}.b(x) FROM root.sg.d1", "which has 4"),
        ("s1 INTO root.${3}(x) FROM root.sg.* ALIGN BY DEVICE", "not a node of root.sg.d1, which has 3"),
        ("s1 INTO root.::.b(x) FROM root.sg.d1", "must be the last node"),
        ("s1 INTO root(x) FROM root.sg.d1", "at least two nodes"),
        ("s1 INTO root.a.b(x), root.a.c(x) FROM root.sg.d1 ALIGN BY DEVICE", "2 targets are named for 1 dev"),
        ("s1 INTO root.a.b(x), root.a.c(x), root.a.d(x) FROM root.sg.* ALIGN BY DEVICE", "for 2 devices"),
        ("s1, s2 INTO root.a.::(x) FROM root.sg.* ALIGN BY DEVICE", "1 targets are named for 2 columns"),
    ],
)  # fmt: skip
def test_what_into_refuses(sg: Plant, sql: str, words: str) -> None:
    with pytest.raises(IotdbError) as caught:
        targets(sg, f"SELECT {sql}")
    assert (caught.value.status, words in caught.value.message) == (Status.SEMANTIC_ERROR, True), caught.value
    assert caught.value.position is not None


def run(plant: Plant, sql: str, **more: Any) -> None:
    select = parse(f"SELECT {sql}")
    assert isinstance(select, Select)
    plant.into(select, **more)


def test_values_types_and_nulls(sg: Plant) -> None:
    sg.series("root.sg.d1", {"wide": "DOUBLE"})
    run(sg, "s1, s2, s1 INTO root.x.y(a, b), root.sg.d1.wide FROM root.sg.d1")
    assert rows(sg("SELECT a, b FROM root.x.y")) == [(1, 1, 2.0), (2, 3, None)]
    device = Schema(sg.catalog).device(("root", "x", "y"))
    assert device is not None and [one.type for one in device.series] == ["INT32", "DOUBLE"]
    assert rows(sg("SELECT wide FROM root.sg.d1")) == [(1, 1.0), (2, 3.0)]
    # a NULL leaves what is stored, a row of NULLs is none
    sg.write("root.x.y", [{"time": 2, "b": 9.0}])
    run(sg, "s1, s2 INTO root.x.y(a, b) FROM root.sg.d1")
    assert rows(sg("SELECT b FROM root.x.y")) == [(1, 2.0), (2, 9.0)]


def test_a_type_that_is_too_narrow_refuses_all(sg: Plant) -> None:
    sg.series("root.sg.d1", {"narrow": "INT32"})
    with pytest.raises(IotdbError) as caught:
        run(sg, "s1, s2 INTO root.x.y(a), root.sg.d1(narrow) FROM root.sg.d1")
    assert caught.value.status is Status.METADATA_ERROR
    assert "root.sg.d1.narrow is INT32: values of type DOUBLE do not fit" in caught.value.message
    assert Schema(sg.catalog).device(("root", "x", "y")) is None


def test_aggregates_without_groups_have_the_time_of_the_range_s_start_or_0(sg: Plant) -> None:
    text = "count(s1), count(s9) INTO root.x.y(n, m) FROM root.sg.d1"
    run(sg, text)
    run(sg, text, span=(2, 5))
    assert rows(sg("SELECT n FROM root.x.y")) == [(0, 2), (2, 1)]
    device = Schema(sg.catalog).device(("root", "x", "y"))
    assert device is not None and [(one.measurement, one.type) for one in device.series] == [("n", "INT64")]


def test_having_over_devices_and_levels(sg: Plant) -> None:
    sg.write("root.sg.d1", [{"time": 30, "s1": 1}], s1="INT32")
    both = "SELECT count(s1) FROM root.sg.* GROUP BY ([0, 40), 20ms) HAVING count(s1) > 0"
    assert rows(sg(both)) == [(0, 2, 2)]
    merged = "SELECT count(s1) FROM root.sg.* GROUP BY ([0, 40), 20ms), LEVEL = 1 HAVING count(s1) > 0"
    assert rows(sg(merged)) == [(0, 4), (20, 1)]
    assert rows(sg(merged.replace("> 0", "> 3"))) == [(0, 4)]
    # what is merged is judged together: devices of one depth, as their columns are
    deep = "SELECT count(s1) FROM root.sg.** GROUP BY ([0, 40), 20ms), LEVEL = 1 HAVING count(s1) > {}"
    assert sg(deep.format(0)).names == ("count(root.sg.*.s1)", "count(root.sg.*.*.s1)")
    assert rows(sg(deep.format(0))) == [(0, 4, 1)]
    assert rows(sg(deep.format(1))) == []


def test_work_grows_with_the_devices_not_with_their_square() -> None:
    """Lines of Python, while the answer of many devices and its targets are put together."""

    def work(count: int) -> int:
        made = Plant()
        made.database("root.p")
        for number in range(count):
            made.series(f"root.p.d{number}", {"v": "DOUBLE"})
        select = parse(
            "SELECT count(v) INTO root.q.::(n) FROM root.p.* GROUP BY(1s) FILL(PREVIOUS) ALIGN BY DEVICE"
        )
        assert isinstance(select, Select)
        schema = Schema(made.catalog)
        query = lower(select, schema, SESSION, span=(0, 2000))
        rows = [[f"root.p.d{number}", 0, 1] for number in range(count)]
        lines = 0

        def count_lines(frame: Any, event: str, _argument: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return count_lines

        before = sys.gettrace()
        sys.settrace(count_lines)
        try:
            written(assemble(query, [rows]), goals(query, schema))
        finally:
            sys.settrace(before)
        return lines

    few, many = work(20), work(80)
    assert many < 5 * few
