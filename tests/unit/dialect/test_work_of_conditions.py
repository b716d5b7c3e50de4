"""Conditions on rows that would be too much work for each batch are refused when the stream is made: they
would keep the streams of all others waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import polars as pl
import pytest

from millrace_core.conditions import condition_expression
from millrace_core.conditions.work import BOUND, work_of
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query import parse_expression
from millrace_core.model.expression import AnyExpression, Call, Constant, Field
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.rows.expressions import LITERAL, OPERATIONS, REPEATS

TABLE = Table(
    "d", "t", "normal", 1, "ms",
    (Column("ts", TIMESTAMP), Column("v", DataType("INT")), Column("s", DataType("VARCHAR", 16))),
)  # fmt: skip
CONSTANTS: dict[str, tuple[Any, ...]] = {"cast": ("BIGINT",), "scaled": (2,), "pad": (3, "x")}
"""Operands that are handed over as they are; ``a`` for others."""


def condition(text: str) -> AnyExpression:
    return condition_expression(parse_expression(text), TABLE, "UTC", "START WITH")


def nested(one: Callable[[str], str], depth: int) -> str:
    made = "v"
    for _ in range(depth):
        made = one(made)
    return f"{made} > 1"


ORDINARY = {
    "a thousand terms of OR": " OR ".join(f"v = {i}" for i in range(1_000)),
    "200 parentheses": f"{'(' * 200}v > 1{')' * 200}",
    "200 CASEs": nested(lambda e: f"CASE WHEN v > 1 THEN {e} END", 199),
    "200 roots": nested(lambda e: f"sin({e})", 199),
    "200 absolute values": nested(lambda e: f"abs({e})", 195),
    "60 times IN": nested(lambda e: f"cast({e} in (0, 1, 2) AS INT)", 60),
    "a few of any kind": nested(lambda e: f"abs(nullif(coalesce({e}, 3), 7))", 3),
    "a chain of sums": " + ".join(["v"] * 200) + " > 1",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_ones_are_taken(name: str) -> None:
    condition(ORDINARY[name])


TOO_MUCH = {
    "greatest": lambda e: f"greatest({e}, 1)",
    "nullif": lambda e: f"nullif({e}, 7)",
    "ln": lambda e: f"ln({e})",
    "divided by": lambda e: f"(1 / {e})",
    "CASE of a value": lambda e: f"CASE {e} WHEN 1 THEN 2 WHEN 2 THEN 3 END",
    "between": lambda e: f"cast({e} between 0 and 1 AS INT)",
    "text": lambda e: f"cast(cast({e} AS VARCHAR(9)) AS INT)",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_becomes_large_is_refused_at_once(name: str) -> None:
    with pytest.raises(SqlError) as caught:
        condition(nested(TOO_MUCH[name], 60))
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert caught.value.position is not None


def test_a_long_chain_is_too_much_work() -> None:
    with pytest.raises(SqlError, match="START WITH: the expression is too expensive to evaluate") as caught:
        condition(" + ".join(["v"] * 990) + " > 1")
    assert caught.value.code is ErrorCode.TOO_LARGE


def copies(name: str, count: int) -> list[int] | None:
    """How often Polars' expression has each operand; None if it takes more."""
    literal = LITERAL.get(name, frozenset())
    given = iter(CONSTANTS.get(name, ("a", "a")))
    operands = [next(given) if i in literal else pl.col(f"c{i}") for i in range(count)]
    try:
        found = Counter(OPERATIONS[name](*operands).meta.root_names())
    except (TypeError, IndexError, StopIteration):
        return None
    return [found[f"c{i}"] for i in range(count)]


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_the_copies_are_those_of_the_table_of_operations(name: str) -> None:
    """Each operand is counted as often as it stands there, or more."""
    tried = [(count, found) for count in (1, 2, 3, 4) if (found := copies(name, count)) is not None]
    assert tried
    for count, found in tried:
        assert work_of(Call(name, (Field("v"),) * count)).size >= sum(found)
        assert max(found) <= 1 or name in REPEATS


@pytest.mark.parametrize("name", sorted(REPEATS))
def test_operands_that_are_calls_are_computed_once(name: str) -> None:
    """However often an operation has them: the work of calls inside one another is a sum, not a product."""
    place = next(i for i in range(4) if i not in LITERAL.get(name, frozenset()))
    made: AnyExpression = Field("v")
    sizes = []
    for _ in range(6):
        made = Call(name, (*(Constant(1),) * place, made, *(Constant(1),) * (1 - place)))
        sizes.append(work_of(made).size)
    assert len({later - earlier for earlier, later in pairwise(sizes[1:])}) == 1
    assert work_of(made).cost > 5 * BOUND


JUDGE = """
import json, sys
import msgspec
import msgspec
import polars as pl
import trigger_svc.spark.workers
from millrace_core.model.expression import AnyExpression
from millrace_core.trigger.rows.expressions import polars

for text in json.load(sys.stdin):
    condition = msgspec.json.decode(text, type=AnyExpression)
    rows = pl.DataFrame({"v": [1, 2]}, schema={"v": pl.Int32})
    assert rows.select(polars(condition).alias("met")).height in (1, 2)
"""


def test_whoever_judges_rows_bears_what_is_taken() -> None:
    """The workers of triggers load nothing of SQL, which sets how deep Python may go."""
    deep = [condition(text) for text in (*ORDINARY.values(), " + ".join(["v"] * 360) + " > 1")]
    texts = json.dumps([msgspec.json.encode(one).decode() for one in deep])
    subprocess.run([sys.executable, "-c", JUDGE], input=texts, text=True, check=True)
