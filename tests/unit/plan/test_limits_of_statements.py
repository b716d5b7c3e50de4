"""Large statements: the work grows with their size alone, and beyond a limit each has its own error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.plan import plan_query

FORMS = {
    "columns of one name": lambda n: f"SELECT {', '.join(['v'] * n)} FROM nt",
    "aggregates": lambda n: f"SELECT {', '.join(f'sum(v + {i})' for i in range(n))} FROM nt",
    "results by GROUP BY": lambda n: (
        f"SELECT {', '.join(f'v + {i}' for i in range(n))} FROM nt"
        f" GROUP BY {', '.join(str(i + 1) for i in range(n))}"
    ),
    "results by ORDER BY": lambda n: (
        f"SELECT {', '.join(f'v + {i} AS c{i}' for i in range(n))} FROM nt"
        f" ORDER BY {', '.join(f'v + {i}' for i in range(n))}"
    ),
    "results of a query in FROM": lambda n: (
        f"SELECT {', '.join(f'c{i}' for i in range(n))}"
        f" FROM (SELECT {', '.join(f'v + {i} AS c{i}' for i in range(n))} FROM nt)"
    ),
}


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python the work takes: its cost, whatever else the machine does."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_planning_is_linear_in_the_columns(kit: Any, form: str) -> None:
    catalog = kit.make_catalog()
    plan_query(FORMS[form](5), "d", catalog, "UTC", 0)  # what is kept from the first time on
    found = [
        lines_run(lambda n=n: plan_query(FORMS[form](n), "d", catalog, "UTC", 0)) for n in (50, 100, 200)
    ]
    assert found[2] - found[1] <= 2.1 * (found[1] - found[0]), found


DEEP = {
    "parentheses": lambda n: f"SELECT {'(' * n}v{')' * n} FROM nt",
    "calls": lambda n: f"SELECT {'abs(' * n}v{')' * n} FROM nt",
    "CASEs": lambda n: f"SELECT {'CASE WHEN v > 1 THEN ' * n}v{' END' * n} FROM nt",
    "AND and OR in turns": lambda n: f"SELECT v FROM nt WHERE {'(v = 1 OR v = 2 AND ' * n}v = 3{')' * n}",
    "NOTs": lambda n: f"SELECT v FROM nt WHERE {'NOT ' * n}v > 1",
    "signs": lambda n: f"SELECT {'- ' * n}v FROM nt",
}


@pytest.mark.parametrize("form", DEEP)
def test_a_depth_of_200_is_planned_and_one_more_is_refused_at_its_place(kit: Any, form: str) -> None:
    catalog = kit.make_catalog()
    plan_query(DEEP[form](200), "d", catalog, "UTC", 0).one_sql({})
    for many in (201, 5_000):
        sql = DEEP[form](many)
        with pytest.raises(SqlError, match="nested more than 200 levels deep") as caught:
            plan_query(sql, "d", catalog, "UTC", 0)
        assert caught.value.code is ErrorCode.TOO_LARGE
        at = caught.value.position
        assert at is not None and at.line == 1
        assert at.column == plan_place(form), "where the level begins that is too much"


def plan_place(form: str) -> int:
    """Where the 201st level begins."""
    opening = {"AND and OR in turns": "(", "parentheses": "(", "calls": "("}.get(form, "")
    sql = DEEP[form](201)
    found = {"CASEs": "CASE", "NOTs": "NOT ", "signs": "- "}.get(form, opening)
    place = -1
    for _ in range(201):
        place = sql.index(found, place + 1)
    return place + 1


def in_rows(world: Any, condition: str) -> list[Any]:
    return sorted(row[0] for row in world.query(f"SELECT v FROM nt WHERE {condition}") if row[0] is not None)


def test_a_thousand_terms_of_or_and_and(kit: Any) -> None:
    world = kit.World()
    world.insert("nt", [{"ts": kit.T0 + i, "v": i, "w": None} for i in range(5)])
    some = " OR ".join(f"v = {i}" for i in range(3, 1_003))
    assert in_rows(world, some) == [3, 4]
    none = " AND ".join(f"v <> {i}" for i in range(3, 1_003))
    assert in_rows(world, none) == [0, 1, 2]
    both = " OR ".join(f"v = {i} AND v > 3 AND w IS NULL" for i in range(1_000))
    assert in_rows(world, both) == [4]
    sql = plan_query(f"SELECT v FROM nt WHERE {some}", "d", world.catalog, "UTC", 0).one_sql({})
    deepest = level = 0
    for char in sql:
        level += (char == "(") - (char == ")")
        deepest = max(deepest, level)
    assert deepest < 20, "Spark, too, descends into what stands in parentheses"


@pytest.mark.parametrize(("sql", "part", "column"), [
    (f"SELECT {', '.join(['v'] * 4097)} FROM nt", "4,097 columns; at most 4,096 are allowed", 8 + 3 * 4096),
    (f"SELECT {', '.join(['*'] * 2049)} FROM nt", "columns; at most 4,096 are allowed", None),
    (f"SELECT {' + '.join(['v'] * 1_500)} FROM nt", "more than 1,000 chained or nested parts", 8),
    (" UNION ALL ".join(["SELECT v FROM nt"] * 300), "more than 256 SELECTs", None),
    ("SELECT a0.v FROM nt a0 " + " ".join(f"JOIN nt a{i} ON a0.ts = a{i}.ts" for i in range(1, 13)),
     "12 joins; at most 10 are allowed", None),
    (f"SELECT '{'x' * (1 << 20)}' FROM nt", "1,048,593 bytes long; at most 1,048,576 bytes are allowed", 1),
    ("SELECT '" + "x" * (1 << 20), "1,048,584 bytes long; at most 1,048,576 bytes", 1),  # before it is read
])  # fmt: skip
def test_what_is_too_large_says_so(kit: Any, sql: str, part: str, column: int | None) -> None:
    with pytest.raises(SqlError) as caught:
        plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    assert caught.value.code is ErrorCode.TOO_LARGE and part in caught.value.message, caught.value
    assert caught.value.position is not None
    assert column is None or caught.value.position.column == column


def test_the_catalog_is_held_for_a_moment_only(kit: Any) -> None:
    """While names are looked up; not while the query is parsed, typed and lowered."""
    catalog = kit.make_catalog()
    held = 0

    class Counting:
        """Gives parts of the catalog, and counts the lines that run meanwhile."""

        def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
            before = sys.gettrace()
            sys.settrace(self.trace)
            try:
                return catalog.part(wanted, families=families)
            finally:
                sys.settrace(before)

        def trace(self, frame: FrameType, event: str, argument: object) -> Any:
            nonlocal held
            held += event == "line"
            return self.trace

    sql = FORMS["aggregates"](300)
    whole = lines_run(lambda: plan_query(sql, "d", catalog, "UTC", 0))
    plan_query(sql, "d", Counting(), "UTC", 0)
    assert 0 < held < whole / 10, (held, whole)


@pytest.mark.parametrize("sql", [
    "SELECT TAGS site, k FROM meters", "SELECT DISTINCT tbname, site FROM meters", "SELECT * FROM d1",
    "SELECT tbname, site FROM meters GROUP BY tbname, site", "SELECT u.fast.v FROM u.fast",
    "SELECT a.v FROM nt a JOIN (SELECT ts, v FROM d.meters) b ON a.ts = b.ts",
])  # fmt: skip
def test_a_part_of_the_catalog_is_enough(kit: Any, sql: str) -> None:
    catalog = kit.make_catalog()
    whole = catalog.part([*catalog.tables, *catalog.children], families=True)
    one, other = (plan_query(sql, "d", some, "UTC", 0) for some in (catalog, whole))
    assert one.one_sql({}) == other.one_sql({}) and one.precision == other.precision
    with pytest.raises(SqlError, match=r"unknown table d.metre \(did you mean meters"):
        plan_query("SELECT v FROM metre", "d", catalog, "UTC", 0)


REPEATING = {
    "greatest": lambda e: f"greatest({e}, 1)",
    "sqrt": lambda e: f"sqrt({e})",
    "asin": lambda e: f"asin({e})",
    "char": lambda e: f"char({e})",
    "truncate": lambda e: f"truncate(v, {e})",
    "time as text": lambda e: f"to_iso8601({e})",
    "number as text and back": lambda e: f"cast(cast({e} AS VARCHAR(20)) AS INT)",
    "CASE of a value": lambda e: f"CASE {e} WHEN 1 THEN 2 WHEN 2 THEN 3 END",
    "fraction": lambda e: f"cast(cast({e} AS DOUBLE) AS INT)",
    "whole quotient": lambda e: f"cast({e} / 3 AS BIGINT)",
}
"""What Spark needs its argument for several times."""


@pytest.mark.parametrize("form", REPEATING)
def test_calls_that_repeat_their_argument_do_not_grow_without_end(kit: Any, form: str) -> None:
    """A few inside one another are planned; what would double again and again is refused in time."""
    catalog = kit.make_catalog()

    def query(depth: int) -> str:
        made = "v"
        for _ in range(depth):
            made = REPEATING[form](made)
        return f"SELECT {made} FROM nt"

    plan_query(query(2), "d", catalog, "UTC", 0).one_sql({})
    try:
        plan_query(query(95), "d", catalog, "UTC", 0)
    except SqlError as error:
        assert error.code is ErrorCode.TOO_LARGE
        assert "the query becomes too large here" in error.message
        assert error.position is not None
    else:
        assert form == "whole quotient"


def test_many_columns_that_grow_are_too_many(kit: Any) -> None:
    columns = ", ".join(["to_iso8601(tbname)"] * 1_000)
    with pytest.raises(SqlError, match="the query becomes too large here") as caught:
        plan_query(f"SELECT {columns} FROM d1", "d", kit.make_catalog(), "UTC", 0)
    assert caught.value.code is ErrorCode.TOO_LARGE
