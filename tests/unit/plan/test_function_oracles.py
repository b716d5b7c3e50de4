"""Every function of the query language against an oracle in plain Python, over awkward tables, in both plans.

The tables hold NULLs, duplicates, one row, none, NULLs alone, integers around 2^53 and 2^62, empty texts and
others than ASCII, times of 1969 to 2036. A function that the planner knows and no oracle fails the last test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.model.schema import TICKS_PER_SECOND, Child, Column, Database, Table
from millrace_core.model.stream import Source
from millrace_core.model.types import DataType
from millrace_core.plan.aggregates.table import AGGREGATES, RUNNING
from millrace_core.plan.functions.scalar import FUNCTIONS
from millrace_core.plan.series.table import SERIES
from millrace_core.wire.events import Group

from ...conftest import examples
from . import oracles_rows as of_rows
from . import oracles_scalar as scalar
from . import test_interp as interp

EXCEPTED = {
    "rand": "gives other numbers in every run; test_rand_lies_between_0_and_1 bounds them",
}
"""Functions without an oracle, and why."""

START = 1_767_225_600  # 2026-01-01 00:00:00 UTC
COLUMNS = {
    "ts": "TIMESTAMP", "i": "INT", "g": "BIGINT", "d": "DOUBLE", "f": "FLOAT", "q": "BIGINT UNSIGNED",
    "s": "VARCHAR", "n": "NCHAR", "b": "BOOL", "at": "TIMESTAMP", "k": "INT",
}  # fmt: skip
Row = dict[str, Any]
Rows = list[Row]

VALUES: dict[str, dict[str, list[Any]]] = {
    "mixed": {
        "i": [None, 0, -5, 7, 7, 100, -100, 2_000_000_000, None, 3, 3, -1],
        "g": [2**53, 2**53 + 1, None, -(2**53) - 1, 0, 0, 12_345_678_901, None, 2**53 + 1, -7, 5, 250],
        "d": [0.5, None, -2.5, 1.5, 1.5, 1e-7, -1e9, 3.25, None, 1e15, -0.0, 2.0],
        "f": [0.5, -2.25, None, 7.75, 7.75, 0.0, 100.0, -0.5, 1.5, None, 2.5, 3.5],
        "q": [0, 1, 2**53 + 1, None, 5, 5, None, 2**32, 7, 8, 9, 10],
        "s": ["", "a", None, "Ab c", "  x ", "äÖü", "XaXbX", "a,b,,12", "12", "-7.5", "12abc", "X.X\n"],
        "n": [None, "", "温温度", "Éa", "X", "a", "b", " \t", "12", "ab", "X", "ß"],
        "b": [True, False, None, True, True, False, None, True, False, True, None, False],
        "at": [-0.5, 0.0, None, 951_782_399.123, 951_782_399.123, 1_709_164_800.0, 1_767_225_600.001,
               1_798_761_599.999, 2_082_758_400.25, 1_767_225_599.0, None, 86_399.999],
        "k": [0, 1, -1, 2, None, 3, -3, 2, 1, 0, -2, 5],
    },
    "twins": {
        "i": [4, 4, 4, None, 4], "g": [2**53 + 1] * 5, "d": [0.1] * 5, "f": [-1.25, None, -1.25, -1.25, 8.0],
        "q": [3] * 5, "s": ["b", "b", "温度计", "b", "b"], "n": ["b"] * 5, "b": [True] * 5,
        "at": [1_767_225_600.5] * 5, "k": [1, 1, None, 2, 2],
    },
    "one": {
        "i": [-7], "g": [2**62 - 1], "d": [-0.5], "f": [1.5], "q": [2**64 - 1], "s": ["\t tab \n"],
        "n": ["it's"], "b": [False], "at": [1_772_366_399.5], "k": [2],
    },
    "nulls": {name: [None] * 3 for name in COLUMNS if name != "ts"},
    "big": {
        "i": [-2_000_000_000, None, 2_000_000_000, 12], "g": [2**62 - 1, -(2**62), 2**62 - 5, -(2**62) + 7],
        "d": [1e18, -1e18, None, 1.0], "f": [-1024.0, 0.25, None, 4096.5], "q": [2**63, 2**62 + 1, None, 5],
        "s": ["👍..", "..", "1e3", " 99999 bottles"], "n": ["👍", "..", "e", "9"],
        "b": [None, True, True, False],
        "at": [2_114_380_800.0, 31_536_000.999, None, 1_000_000_000.0], "k": [-1, 0, 1, None],
    },
    "far": {
        "i": [1, 2, 3, 4], "g": [0, 1, -1, None], "d": [1e308, -1e308, 1e300, 1e-300],
        "f": [2.0**60, -(2.0**60), 1e-38, None],
        "q": [0, 0, 0, 0], "s": ["温温", "X温X", "aX", "Xa"], "n": ["温温", "温", "X", "a"],
        "b": [True, False, True, False], "at": [0.0, 1.0, 2.0, 3.0], "k": [2, -2, 1, 3],
    },
    "empty": {name: [] for name in COLUMNS},
}  # fmt: skip
SITES = {"mixed": "x", "twins": "x", "empty": "y"}
"""Tables of one group where tables are grouped; the others are groups of their own."""
SUMS = [name for name in VALUES if name != "far"]
"""Tables whose sums and squares no type overflows."""


class Sweep:
    """The tables in a database of one precision, and streams over them."""

    def __init__(self, kit: Any, precision: Any, tables: Sequence[str] = tuple(VALUES)) -> None:
        self.tables = tables
        self.kit, self.unit, self.precision = kit, TICKS_PER_SECOND[precision], precision
        columns = tuple(
            Column(name, DataType.of(type_, 32 if "CHAR" in type_ else None))
            for name, type_ in COLUMNS.items()
        )
        self.table = Table(
            "d", "a", "super", 1, precision, columns, (Column("site", DataType.of("VARCHAR", 8)),)
        )
        catalog = Catalog()
        children = [Child("d", "a", name, (SITES.get(name, name),)) for name in VALUES]
        for record in (Database("d", precision), self.table, *children):
            catalog.apply(key_of(record), encode(record))
        self.world = kit.World(catalog=catalog, tables={"a": self.table})
        for name in tables:
            self.insert(name, VALUES[name])

    def insert(self, name: str, given: dict[str, list[Any]]) -> None:
        count = len(given["i"])
        rows = [{c: given[c][at] for c in given if c != "ts"} for at in range(count)]
        for at, row in enumerate(rows):
            row["ts"] = (START + at + at * at % 3) * self.unit + at % 2
            row["f"] = None if row["f"] is None else float(pl.Series([row["f"]], dtype=pl.Float32)[0])
            row["at"] = None if row["at"] is None else round(row["at"] * 1_000) * (self.unit // 1_000)
        self.world.insert(name, rows)

    def compare(self, calls: Sequence[tuple[str, Any]], query: str, wanted: Any, by: str = "tbname") -> None:
        """Both plans of a stream give, for each trigger, the rows that ``wanted(rows of the trigger)`` gives.

        The query's results stand for ``{}``.
        """
        text = query.format(", ".join(f"{call} AS x{n}" for n, (call, _) in enumerate(calls)))
        plan = self.world.plan(text, partition=(by,), source=Source(self.table))
        names = list(dict.fromkeys(SITES.get(name, name) if by == "site" else name for name in self.tables))
        groups = [Group(n, (name,), name if by == "tbname" else None) for n, name in enumerate(names, 1)]
        windows = [(START, START + 100), (START + 1, START + 3)]
        cut = [(a * self.unit, b * self.unit) for a, b in windows]
        events = self.kit.window_events(self.world.spec, cut, groups)
        trig = self.kit.trigger_relation(self.world.spec, events)
        expected: list[tuple[Any, ...]] = []
        for trigger in trig.rows(named=True):
            rows = self.rows(trigger, by, names[trigger["_tgrpid"] - 1])
            expected += [(trigger["_tid"], *row) for row in wanted(rows)]
        keys = 3 if query == EACH_ROW else 1
        same(self.world.set_rows(plan, trig), expected, keys, text)
        some = trig.filter(pl.col("_tid") % len(windows) == 0)
        first = [row for row in expected if row[0] % len(windows) == 0]
        same(self.world.one_rows(plan, some), first, keys, text)

    def rows(self, trigger: Row, by: str, name: str) -> Rows:
        """A trigger's rows by time and table, with what the oracles want to know besides."""
        more = {"_unit": self.unit, "_precision": self.precision, "_now": trigger["_tlocaltime"]}
        found = [
            {**row, **more} for row in self.world.rows["a"]
            if row[by] == name and trigger["_twstart"] <= row["ts"] < trigger["_twend"]
        ]  # fmt: skip
        return sorted(found, key=lambda row: (row["ts"], row["tbname"]))


def plain(value: Any) -> Any:
    """What is not finite is written as NULL."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else int(value)


def alike(found: Any, wanted: Any) -> bool:
    found, wanted = plain(found), plain(wanted)
    if isinstance(found, float) and wanted is not None and not isinstance(wanted, str):
        return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=2e-6)
    return bool(found == wanted)


def same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], keys: int, text: str) -> None:
    """The same rows, in the order of their first columns."""
    found, wanted = (sorted(rows, key=lambda row: row[:keys]) for rows in (found, wanted))
    assert [row[:keys] for row in found] == [row[:keys] for row in wanted], text
    for one, other in zip(found, wanted, strict=True):
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            assert alike(a, b), f"{text}\ncolumn {n} of {one}\nwanted {other}"


EACH_ROW = "SELECT ts, tbname, {} FROM %%trows"
TOGETHER = "SELECT {} FROM %%trows"


def precisions(timed: bool) -> tuple[str, ...]:
    return ("ms", "us", "ns") if timed else ("ms",)


@pytest.mark.parametrize("name", scalar.SCALARS)
def test_scalar_functions(kit: Any, name: str) -> None:
    calls = scalar.SCALARS[name]

    def wanted(rows: Rows) -> list[tuple[Any, ...]]:
        return [(row["ts"], row["tbname"], *(oracle(row) for _, oracle in calls)) for row in rows]

    for precision in precisions(name in scalar.TIME):
        Sweep(kit, precision).compare(calls, EACH_ROW, wanted)


def aggregated(calls: Sequence[tuple[str, Any]], rows: Rows, counts: bool) -> list[tuple[Any, ...]]:
    if not rows:
        return [tuple(0 for _ in calls)] if counts else []
    found = [oracle(rows) for _, oracle in calls]
    if calls[0][0].startswith(("first(", "last(")) and all(value is None for value in found):
        return []  # these two need a value
    return [(value,) for value in found[0]] if isinstance(found[0], list) else [tuple(found)]


@pytest.mark.parametrize("name", of_rows.AGGREGATES)
def test_aggregate_functions(kit: Any, name: str) -> None:
    calls, counts = of_rows.AGGREGATES[name], AGGREGATES[name].counts
    for precision in precisions(name in RUNNING):
        sweep = Sweep(kit, precision, SUMS)
        for some in [[call] for call in calls] if name == "histogram" else [calls]:
            by = "tbname" if name in of_rows.ONE_TABLE else "site"
            sweep.compare(some, TOGETHER, lambda rows, some=some: aggregated(some, rows, counts), by)


@pytest.mark.parametrize("name", of_rows.SERIES)
def test_series_functions(kit: Any, name: str) -> None:
    for precision in precisions(name in ("derivative", "stateduration")):
        sweep = Sweep(kit, precision, SUMS)
        for call, oracle in of_rows.SERIES[name]:
            sweep.compare([(call, oracle)], EACH_ROW, oracle, "tbname" if name == "derivative" else "site")


@pytest.mark.parametrize("column", ["i", "g", "d", "f"])
def test_percentile(kit: Any, column: str) -> None:
    """In user queries only."""
    sweep = Sweep(kit, "ms", SUMS)
    call, oracle = next(case for case in of_rows.PERCENTILE if f"({column}," in case[0])
    found = dict(sweep.world.query(f"SELECT tbname, {call} FROM a PARTITION BY tbname"))
    wanted = {name: oracle([row for row in sweep.world.rows["a"] if row["tbname"] == name]) for name in found}
    assert set(found) == set(SUMS) - {"empty"}
    assert all(alike(found[name], wanted[name]) for name in found), (found, wanted)


@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
def test_interp(kit: Any, precision: Any) -> None:
    """In user queries only; more of it is in ``test_interp.py``, whose oracle this is."""
    sweep = Sweep(kit, precision, SUMS)
    low, high, step = ((START + at) * sweep.unit for at in (-2, 14, 0.5 - START))
    for mode in ("NULL", "PREV", "NEXT", "NEAR"):
        for name in (name for name in SUMS if name != "twins"):
            rows = [(row["ts"], row["g"]) for row in sweep.world.rows["a"] if row["tbname"] == name]
            fill = f"RANGE({low}, {high}) EVERY(500a) FILL({mode})"
            found = sweep.world.query(f"SELECT _irowts, _isfilled, interp(g) FROM {name} {fill}")
            assert found == interp.oracle(sorted(rows), range(low, high + 1, int(step)), mode, False, True), (
                mode,
                name,
            )


def test_rand_lies_between_0_and_1(kit: Any) -> None:
    sweep = Sweep(kit, "ms")
    found = sweep.world.query("SELECT rand(), rand() FROM a")
    assert len({value for row in found for value in row}) > 20
    assert all(0 <= value < 1 for row in found for value in row)


integers = st.one_of(st.none(), st.integers(-(2**53) - 3, 2**53 + 3), st.integers(-5, 5))
texts = st.one_of(st.none(), st.text("aXb,. \t\n温é1-", max_size=6))


@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_rows=st.lists(st.tuples(integers, texts, texts, st.booleans()), min_size=1, max_size=8))
def test_functions_of_any_rows(kit: Any, given_rows: list[tuple[Any, ...]]) -> None:
    """Those of BIGINT and text, which have the most corners."""
    names = ("round", "truncate", "trim", "find_in_set", "replace", "substr", "cast", "crc32")
    calls = [
        c for name in names for c in scalar.SCALARS[name] if not {"d", "f", "q", "i"} & set(columns_of(c[0]))
    ]
    sweep = Sweep(kit, "ms", ())
    rest: dict[str, list[Any]] = {name: [None] * len(given_rows) for name in COLUMNS if name != "ts"}
    given_columns = dict(zip("gsnb", map(list, zip(*given_rows, strict=True)), strict=True))
    sweep.insert("mixed", rest | given_columns)
    sweep.tables = ("mixed",)
    sweep.compare(
        calls, EACH_ROW, lambda rows: [(r["ts"], r["tbname"], *(f(r) for _, f in calls)) for r in rows]
    )


def columns_of(call: str) -> list[str]:
    return [word for word in re.findall(r"\w+", call) if word in COLUMNS]


def test_spark_gets_no_bool_beside_numbers(kit: Any) -> None:
    """DuckDB takes it, Spark does not."""
    sweep = Sweep(kit, "ms")
    calls = "coalesce(b, i), nvl2(s, b, i), if(b, b, i), greatest(b, i), abs(b), sign(b), "
    calls += "CASE WHEN b THEN b WHEN i = 1 THEN NULL ELSE i END"
    sql = sweep.world.plan(f"SELECT {calls} FROM %%trows", source=Source(sweep.table)).one_tree.sql("spark")
    assert sql.count("CAST(`_src0`.`b` AS BIGINT)") == 7, sql


def test_every_function_has_an_oracle() -> None:
    known = {*FUNCTIONS, *AGGREGATES, *SERIES, "cast"}
    held = {*scalar.SCALARS, *of_rows.AGGREGATES, *of_rows.SERIES, "percentile", "interp"}
    assert held | set(EXCEPTED) == known
    assert not held & set(EXCEPTED)
    assert all(of_rows.SERIES.values()) and all(of_rows.AGGREGATES.values()) and all(scalar.SCALARS.values())
