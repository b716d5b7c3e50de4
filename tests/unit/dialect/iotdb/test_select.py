"""SELECT of IoTDB, lowered to queries that the planner runs, on DuckDB: the seed's tables, and plain Python
over the same rows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.dialect.iotdb.conftest import AT, NAMES, SESSION, Plant, rows

from millrace_core.dialect.iotdb import IotdbError, Status, parse
from millrace_core.dialect.iotdb.paths import write_path
from millrace_core.dialect.iotdb.schema import TABLE, Schema
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.dialect.iotdb.statements import Select


def test_raw_series_are_columns_of_their_paths(seed: Plant) -> None:
    found = seed("SELECT temperature FROM root.ln.*.*")
    assert found.names == tuple(f"{name}.temperature" for name in sorted(NAMES))
    assert rows(found)[0] == (AT + 14_598, 115.0, 183.0, 72.0, 121.0)
    assert len(rows(found)) == 9


def test_the_order_of_columns_is_that_of_from(seed: Plant) -> None:
    found = seed(f"SELECT max_value(temperature) FROM {', '.join(NAMES)}")
    assert found.names == tuple(f"max_value({name}.temperature)" for name in NAMES)
    assert found.times is None
    assert rows(found) == [(182.0, 172.0, 183.0, 193.0)]


def test_the_groups_of_cq1(seed: Plant) -> None:
    found = seed(
        f"SELECT max_value(temperature) FROM {', '.join(NAMES)} "
        "GROUP BY ([2021-05-11T22:18:20+08:00, 2021-05-11T22:19:00+08:00), 10s)"
    )
    assert rows(found) == [
        (AT + 20_000, 122, 45, 59, 181), (AT + 30_000, 182, 113, 52, 180), (AT + 40_000, 137, 172, 135, 193),
        (AT + 50_000, 16, 124, 183, 18),
    ]  # fmt: skip


def test_the_groups_of_a_run_are_those_of_its_span(seed: Plant) -> None:
    """cq2 at 22:18:40: [22:18:00, 22:18:40), the first group empty."""
    text = f"SELECT max_value(temperature) FROM {', '.join(NAMES)} GROUP BY (10s)"
    found = seed(text, span=(AT, AT + 40_000))
    assert rows(found) == [
        (AT, None, None, None, None), (AT + 10_000, 121, 72, 183, 115), (AT + 20_000, 122, 45, 59, 181),
        (AT + 30_000, 182, 113, 52, 180),
    ]  # fmt: skip
    filled = seed(f"{text} FILL(100.0)", span=(AT, AT + 40_000))
    assert rows(filled)[0] == (AT, 100.0, 100.0, 100.0, 100.0)


def test_an_expression_of_rows_by_device(seed: Plant) -> None:
    """cq5 at 22:18:40; 42 + 1 is 43 (SEMANTICS: the seed's 45.0 is a slip)."""
    found = seed("SELECT temperature + 1 FROM root.ln.*.* align by device", span=(AT + 20_000, AT + 40_000))
    assert found.names == ("temperature + 1",)
    last = [row for row in rows(found) if row[0] == "root.ln.wf02.wt02"]
    assert [row[2] for row in last] == [123.0, 48.0, 183.0, 43.0]
    assert len(rows(found)) == 16
    assert [row[0] for row in rows(found)] == sorted(row[0] for row in rows(found))


# -- clauses -------------------------------------------------------------------------------------------------


@pytest.fixture
def plant() -> Plant:
    made = Plant()
    made.database("root.p")
    made.database("root.q")
    made.write("root.p.d1", [{"time": t, "v": t, "s": f"x{t}"} for t in range(10)], v="INT32", s="TEXT")
    made.write(
        "root.p.d2", [{"time": 2 * t, "v": -t, "b": t % 2 == 0} for t in range(5)], v="INT32", b="BOOLEAN"
    )
    made.write("root.p.hall.d3", [{"time": 3, "v": "text"}], v="TEXT")
    made.write("root.q", [{"time": 1, "a": 1.5}])
    return made


@pytest.mark.parametrize(
    ("sql", "names", "expected"),
    [
        ("SELECT v FROM root.p.d1 LIMIT 2 OFFSET 3", None, [(3, 3), (4, 4)]),
        ("SELECT v FROM root.p.d1 ORDER BY TIME DESC LIMIT 2", None, [(9, 9), (8, 8)]),
        ("SELECT v, s FROM root.p.d1 WHERE v > 7 AND NOT (s = 'x8')", None, [(9, 9, "x9")]),
        ("SELECT v FROM root.p.d1 WHERE time >= 4 and time < 6", None, [(4, 4), (5, 5)]),
        ("SELECT v FROM root.p.d1 WHERE timestamp >= 4 AND TIMESTAMP < 6", None, [(4, 4), (5, 5)]),
        ("SELECT v FROM root.p.d1 WHERE `time` >= 4", None, []),
        ("SELECT v FROM root.p.d1 WHERE s IN ('x1', 'x2') OR s LIKE '%5' OR s REGEXP '^x7$'", None,
         [(1, 1), (2, 2), (5, 5), (7, 7)]),
        ("SELECT v FROM root.p.d1, root.p.d2 WHERE time BETWEEN 7 AND 8", ("root.p.d1.v", "root.p.d2.v"),
         [(7, 7, None), (8, 8, -4)]),
        ("SELECT d1.v, d2.b FROM root.p WHERE time <= 1",
         ("root.p.d1.v", "root.p.d2.b"), [(0, 0, True), (1, 1, None)]),
        ("SELECT * FROM root.p.d2 LIMIT 1", ("root.p.d2.b", "root.p.d2.v"), [(0, True, 0)]),
        ("SELECT ** FROM root LIMIT 1",
         ("root.p.d1.s", "root.p.d1.v", "root.p.d2.b", "root.p.d2.v", "root.p.hall.d3.v", "root.q.a"),
         [(0, "x0", 0, True, 0, None, None)]),
        ("SELECT a FROM root.q", ("root.q.a",), [(1, 1.5)]),
        ("SELECT count(v), sum(v), avg(v), min_time(v), max_time(v) FROM root.p.d1",
         None, [(10, 45.0, 4.5, 0, 9)]),
        ("SELECT first_value(s), last_value(s), spread(v), extreme(v) FROM root.p.d1",
         None, [("x0", "x9", 9.0, 9)]),
        ("SELECT max_value(v) - min_value(v) * 2 AS width FROM root.p.d2", ("width",), [(8.0,)]),
        ("SELECT count(v) FROM root.p.d1 WHERE v > 100", None, [(0,)]),
        ("SELECT count(v) > 9, count(v) BETWEEN 1 AND 2, NOT (sum(v) IS NULL) FROM root.p.d1", None,
         [(True, False, True)]),
        ("SELECT sum(v) FROM root.p.d1 WHERE v > 100", None, [(None,)]),
        # the sign of a remainder is that of the dividend, as in rows
        ("SELECT min_value(v) % 3, max_value(v) % 0 FROM root.p.d2", None, [(-1.0, None)]),
        ("SELECT v % 3 FROM root.p.d2 WHERE v = -4", None, [(8, -1.0)]),
        ("SELECT count(v) FROM root.p.* GROUP BY LEVEL = 1", ("count(root.p.*.v)",), [(15,)]),
        ("SELECT avg(v) FROM root.p.d1, root.p.d2 GROUP BY LEVEL = 1", ("avg(root.p.*.v)",), [(35 / 15,)]),
        ("SELECT last_value(v), first_value(v) FROM root.p.d1, root.p.d2 GROUP BY LEVEL = 0",
         ("last_value(root.*.*.v)", "first_value(root.*.*.v)"), [(9, 0)]),
        ("SELECT v FROM root.p.d1, root.p.d2 WHERE v > 8 OR v < -3 ALIGN BY DEVICE", ("v",),
         [("root.p.d1", 9, 9), ("root.p.d2", 8, -4)]),
        ("SELECT b, v FROM root.p.d1, root.p.d2 WHERE time = 8 ORDER BY TIME DESC ALIGN BY DEVICE",
         ("b", "v"),
         [("root.p.d1", 8, None, 8), ("root.p.d2", 8, True, -4)]),
        ("SELECT count(v) FROM root.p.d1, root.p.d2 HAVING count(v) > 5 ALIGN BY DEVICE", ("count(v)",),
         [("root.p.d1", 10)]),
        ("SELECT v FROM root.nowhere.**", (), []),
    ],
)  # fmt: skip
def test_what_a_select_gives(plant: Plant, sql: str, names: Any, expected: list[tuple[Any, ...]]) -> None:
    found = plant(sql)
    assert names is None or found.names == names
    assert rows(found) == [tuple(pytest.approx(cell) for cell in row) for row in expected]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("LAST v, s FROM root.p.d1, root.p.d2",
         [(9, "root.p.d1.s", "x9", "TEXT"), (9, "root.p.d1.v", "9", "INT32"),
          (8, "root.p.d2.v", "-4", "INT32")]),
        ("LAST * FROM root.p.d2 WHERE time < 5 ORDER BY TIMESERIES DESC",
         [(4, "root.p.d2.v", "-2", "INT32"), (4, "root.p.d2.b", "true", "BOOLEAN")]),
        ("LAST v FROM root.p.** ORDER BY TIME LIMIT 2 OFFSET 1",
         [(8, "root.p.d2.v", "-4", "INT32"), (9, "root.p.d1.v", "9", "INT32")]),
        ("LAST v, b FROM root.p.d2 WHERE time > 100", []),
    ],
)  # fmt: skip
def test_last_gives_the_newest_value_of_each_series(plant: Plant, sql: str, expected: Any) -> None:
    found = plant(f"SELECT {sql}")
    assert found.names == ("Timeseries", "Value", "DataType")
    assert rows(found) == expected


def test_a_condition_over_aggregates_is_a_boolean(plant: Plant) -> None:
    found = plant("SELECT count(v) >= 10, count(v) + 1, -count(v) FROM root.p.d1")
    assert (found.types, rows(found)) == (("BOOLEAN", "DOUBLE", "DOUBLE"), [(True, 11.0, -10.0)])


def test_dates_and_blobs() -> None:
    made = Plant()
    made.database("root.t")
    made.write(
        "root.t.d", [{"time": 1, "day": "2026-01-31", "raw": "0x0fa0"}, {"time": 2, "day": "2026-02-01"}],
        day="DATE", raw="BLOB",
    )  # fmt: skip
    found = made("SELECT day, raw FROM root.t.d WHERE day > '2026-01-30'")
    assert found.types == ("DATE", "BLOB")
    assert rows(found) == [(1, "2026-01-31", "0x0fa0"), (2, "2026-02-01", None)]
    assert rows(made("SELECT max_value(day), last_value(raw), count(raw) FROM root.t.d")) == [
        ("2026-02-01", "0x0fa0", 1)
    ]
    assert rows(made("SELECT day FROM root.t.d WHERE raw = X'0FA0'")) == [(1, "2026-01-31")]
    with pytest.raises(IotdbError, match="in quotes"):
        made("SELECT day FROM root.t.d WHERE day = 2026-01-31")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("count(v), last_value(s) FROM root.p.d1 GROUP BY ([0, 8), 3ms)",
         [(0, 3, "x2"), (3, 3, "x5"), (6, 2, "x7")]),
        ("sum(v) FROM root.p.d1 WHERE v > 1 GROUP BY ([0, 10), 4ms, 3ms) HAVING count(v) > 3",
         [(3, 18.0), (6, 30.0)]),
        ("count(v) FROM root.p.d1, root.p.d2 GROUP BY ([8, 12), 1ms, 2ms) ALIGN BY DEVICE",
         [("root.p.d1", 8, 1), ("root.p.d1", 10, 0), ("root.p.d2", 8, 1), ("root.p.d2", 10, 0)]),
        ("count(v) FROM root.p.d1, root.p.d2 GROUP BY ([0, 4), 2ms), LEVEL = 1", [(0, 3), (2, 3)]),
        ("max_value(v) FROM root.p.d2 GROUP BY ([0, 6), 1ms) FILL(PREVIOUS) ORDER BY TIME DESC LIMIT 3",
         [(5, -2), (4, -2), (3, -1)]),
    ],
)  # fmt: skip
def test_groups_that_are_shorter_than_the_planner_s(plant: Plant, sql: str, expected: Any) -> None:
    assert rows(plant(f"SELECT {sql}")) == expected


@pytest.fixture
def tens() -> Plant:
    """The same values, 10 ms apart: the planner's shortest window."""
    made = Plant()
    made.database("root.t")
    made.write("root.t.d1", [{"time": 10 * t, "v": t} for t in range(10)], v="INT32")
    made.write("root.t.d2", [{"time": 20 * t, "v": -t} for t in range(5)], v="INT32")
    return made


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("count(v) FROM root.t.d1 GROUP BY ([0, 100), 40ms)", [(0, 4), (40, 4), (80, 2)]),
        ("sum(v) FROM root.t.d1 GROUP BY ([10, 70), 40ms, 20ms)", [(10, 10.0), (30, 18.0), (50, 11.0)]),
        ("count(v) FROM root.t.d1 GROUP BY ([10, 100), 20ms, 50ms)", [(10, 2), (60, 2)]),
        ("count(v) FROM root.t.d1 GROUP BY ([80, 140), 20ms) HAVING count(v) > 0", [(80, 2)]),
        ("avg(v) FROM root.t.d2 GROUP BY ([70, 110), 10ms) FILL(PREVIOUS)",
         [(70, None), (80, -4), (90, -4), (100, -4)]),
        ("avg(v) FROM root.t.d2 GROUP BY ([40, 100), 10ms) FILL(LINEAR)",
         [(40, -2), (50, -2.5), (60, -3), (70, -3.5), (80, -4), (90, None)]),
        ("last_value(v) FROM root.t.d2 GROUP BY ([70, 90), 10ms) FILL(1.5)", [(70, None), (80, -4)]),
        ("last_value(v) FROM root.t.d2 GROUP BY ([70, 90), 10ms) FILL(5)", [(70, 5), (80, -4)]),
        ("last_value(v) FROM root.t.d2 GROUP BY ([70, 90), 10ms) FILL(2147483648)", [(70, None), (80, -4)]),
    ],
)  # fmt: skip
def test_groups_of_time(tens: Plant, sql: str, expected: list[tuple[Any, ...]]) -> None:
    found = rows(tens(f"SELECT {sql}"))
    assert found == [tuple(pytest.approx(cell) for cell in row) for row in expected]


@pytest.mark.parametrize(
    ("sql", "status", "words"),
    [
        ("SELECT v, count(v) FROM root.p.d1", Status.SEMANTIC_ERROR, "together"),
        ("SELECT sum(s) FROM root.p.d1", Status.SEMANTIC_ERROR, "needs numbers"),
        ("SELECT s + 1 FROM root.p.d1", Status.SEMANTIC_ERROR, "needs numbers"),
        ("SELECT v FROM root.p.d1 WHERE s > 1", Status.SEMANTIC_ERROR, "compared"),
        ("SELECT v FROM root.p.d1 WHERE v", Status.SEMANTIC_ERROR, "condition"),
        ("SELECT **.a.** FROM root.**.b.**", Status.ILLEGAL_PATH, "at most 3 are allowed"),
        ("SELECT sin(v) FROM root.p.d1", Status.UNSUPPORTED_OPERATION, "sin"),
        ("SELECT sin(nothing) FROM root.p.d1", Status.UNSUPPORTED_OPERATION, "sin"),
        ("SELECT count(v) + sin(nothing) FROM root.p.d1 ALIGN BY DEVICE", Status.UNSUPPORTED_OPERATION,
         "supported functions: avg, count"),
        ("SELECT v FROM root.p.d1 WHERE sin(nothing) > 1", Status.UNSUPPORTED_OPERATION, "sin"),
        ("SELECT v FROM root.p.d1 WHERE count(v) > 1", Status.SEMANTIC_ERROR, "aggregates in HAVING"),
        ("SELECT count(v) FROM root.p.d1 GROUP BY (10ms)", Status.SEMANTIC_ERROR, "needs a time range"),
        ("SELECT LAST v + 1 FROM root.p.d1", Status.SEMANTIC_ERROR, "needs series"),
        ("SELECT LAST v FROM root.p.d1 WHERE v > 1", Status.SEMANTIC_ERROR, "only on time"),
        ("SELECT LAST v FROM root.p.d1 ALIGN BY DEVICE", Status.SEMANTIC_ERROR, "used with ALIGN BY DEVICE"),
        ("SELECT LAST v INTO root.p.e(v) FROM root.p.d1", Status.SEMANTIC_ERROR, "cannot be used with INTO"),
        ("SELECT max_value(s) FROM root.p.d1", Status.SEMANTIC_ERROR, "STRING or DATE"),
        ("SELECT count(v) FROM root.p.d1 GROUP BY ([5, 5), 10ms)", Status.SEMANTIC_ERROR, "end after"),
        ("SELECT v FROM root.p.d1 GROUP BY ([0, 5), 1ms)", Status.SEMANTIC_ERROR, "aggregates"),
        ("SELECT count(v) FROM root.p.d1 GROUP BY ([0, 100000000000), 10ms)",
         Status.SEMANTIC_ERROR, "more than"),
        ("SELECT v FROM root.p.d1, root.p.d2 WHERE v > 'a'", Status.SEMANTIC_ERROR, "compared"),
        ("SELECT v FROM root.p.d1, root.p.d2 WHERE v + 1", Status.SEMANTIC_ERROR, "condition"),
        ("SELECT v + b FROM root.p.*", Status.UNSUPPORTED_OPERATION, "over several devices"),
        ("SELECT v AS x FROM root.p.d1, root.p.d2", Status.SEMANTIC_ERROR, "2 columns"),
        ("SELECT v FROM root.** ALIGN BY DEVICE", Status.SEMANTIC_ERROR, "different types"),
        ("SELECT d1.v FROM root.p ALIGN BY DEVICE", Status.SEMANTIC_ERROR, "only the measurement"),
        ("SELECT 1 FROM root.p.d1", Status.SEMANTIC_ERROR, "needs a series"),
    ],
)  # fmt: skip
def test_what_a_select_refuses(plant: Plant, sql: str, status: Status, words: str) -> None:
    with pytest.raises(IotdbError) as caught:
        plant(sql)
    assert (caught.value.status, words in caught.value.message) == (status, True), caught.value


def test_no_more_rows_are_asked_for_than_needed(plant: Plant) -> None:
    select = parse("SELECT v FROM root.p.d1, root.p.d2")
    assert isinstance(select, Select)
    (fetch,) = lower(select, Schema(plant.catalog), SESSION, most=3).fetches
    assert fetch.sql.endswith("LIMIT 8")
    select = parse("SELECT v FROM root.p.d1, root.p.d2 LIMIT 2147483647")
    assert isinstance(select, Select)
    (fetch,) = lower(select, Schema(plant.catalog), SESSION).fetches
    assert "LIMIT" not in fetch.sql  # more than Spark's LIMIT takes


# -- against plain Python ------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1000), st.integers(-5, 20), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9),
    st.sampled_from([1, 10]),
)  # fmt: skip
def test_groups_are_those_of_plain_python(
    seed: int, start: int, length: int, interval: int, step: int, scale: int
) -> None:
    rng = random.Random(seed)
    made = Plant()
    made.database("root.r")
    told: dict[str, dict[int, int]] = {}
    start, length, interval, step = (scale * n for n in (start, length, interval, step))
    for name in ("root.r.a", "root.r.b"):
        told[name] = {t: rng.randint(-9, 9) for t in rng.sample(range(300), 40)}
        made.write(name, [{"time": t, "v": v} for t, v in told[name].items()], v="INT64")
    end = start + length
    found = made(
        f"SELECT count(v), sum(v), max_value(v), last_value(v) FROM root.r.* "
        f"GROUP BY ([{start}, {end}), {interval}ms, {step}ms) ALIGN BY DEVICE"
    )
    expected = []
    for name, values in told.items():
        for at in range(start, end, step):
            inside = {t: v for t, v in values.items() if at <= t < min(at + interval, end)}
            expected.append((
                name, at, len(inside), sum(inside.values()) if inside else None,
                max(inside.values(), default=None), inside[max(inside)] if inside else None,
            ))  # fmt: skip
    assert rows(found) == expected


# -- the mapping ---------------------------------------------------------------------------------------------


def test_devices_share_columns_and_types_part_them(plant: Plant) -> None:
    table = plant.catalog.tables["root.p", TABLE]
    assert [column.name for column in table.columns] == ["time", "v", "s", "b", "v:TEXT"]
    assert plant.catalog.children["root.p", "root.p.hall.d3"].tags == ("root.p.hall.d3",)


def test_the_same_rows_in_the_other_dialect(plant: Plant) -> None:
    found = plant.worlds["root.p"].query(
        "SELECT `time`, v FROM `root.p`.`root.p.d1` WHERE v > 7 ORDER BY `time`"
    )
    assert found == [(8, 8), (9, 9)]
    assert plant.worlds["root.p"].query("SELECT count(v) FROM `root.p`.devices") == [(15,)]


def test_names_that_the_table_has_already() -> None:
    made = Plant()
    made.database("root.p")
    device = made.series("root.p.d", {"device": "INT32", "_wstart": "DOUBLE", "v:TEXT": "TEXT"})
    assert [one.column for one in device.series] == ["device:INT32", "_wstart:DOUBLE", "v:TEXT"]
    again = made.series("root.p.d", {"v": "TEXT"})
    assert again.series[-1].column == "v"
    other = made.series("root.p.e", {"v": "INT32", "v:INT32": "INT32"})
    assert len({one.column for one in other.series}) == 2


def test_a_database_lies_in_no_other(plant: Plant) -> None:
    schema = Schema(plant.catalog)
    for text in ("root.p", "root.p.d1", "root.q.x.y"):
        create: Any = parse(f"CREATE DATABASE {text}")
        with pytest.raises(IotdbError) as caught:
            schema.check_new(create.path)
        assert caught.value.status is Status.DATABASE_ALREADY_EXISTS
    plant.database("root.r.s")
    create = parse("CREATE DATABASE root.r")
    with pytest.raises(IotdbError):
        schema.check_new(create.path)
    assert schema.database_of(("root", "r", "s", "t")) == "root.r.s"
    assert write_path(("root", "r", "s")) in schema.databases()


# -- long chains ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "times"),
    [
        (" OR ".join(f"v = {i}" for i in range(7, 1_007)), [7, 8, 9]),
        (" AND ".join(f"v != {i}" for i in range(3, 1_003)), [0, 1, 2]),
        (" + ".join(["v"] * 300) + " >= 2400", [8, 9]),
        ("9 - v - 1 - v * 2 / 4 % 3 + v > 7", [0, 1, 6, 7]),
        ("20 - (v - 1) - 1 >= 13 AND (v = 2 OR v = 3 AND NOT (v = 3 OR v = 5)) OR v = 9", [2, 9]),
    ],
)
def test_long_chains_mean_what_short_ones_do(plant: Plant, condition: str, times: list[int]) -> None:
    found = rows(plant(f"SELECT s FROM root.p.d1 WHERE {condition}"))
    assert [row[0] for row in found] == times
