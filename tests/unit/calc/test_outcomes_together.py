"""Outcomes of one job are parts of one frame; what is made of them is what separate frames would give."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from millrace_core.calc.outcome import Outcome, outcomes_of, rows_of
from millrace_core.plan import Bound, Plan
from millrace_core.plan.model import Comparison, Formula

PLAIN = Plan((), (), frozenset(), "ms", exp.Null(), None)
TIDS = st.integers(0, 6)


def frame(tids: list[int]) -> pl.DataFrame:
    """A row for each, which says where it stood."""
    rows = [(place, str(tid)) for place, tid in enumerate(tids)]
    return pl.DataFrame(rows, schema={"r0": pl.Int64, "r1": pl.String}, orient="row")


@given(st.lists(TIDS, max_size=20), st.lists(TIDS, unique=True))
def test_each_trigger_gets_its_rows_in_their_order(tids: list[int], wanted: list[int]) -> None:
    rows = frame(tids)
    found = outcomes_of(rows, np.array(tids, dtype=np.int64), np.array(wanted, dtype=np.int64), PLAIN)
    expected = [[(place, str(tid)) for place, tid in enumerate(tids) if tid == one] for one in wanted]
    assert [outcome.rows.rows() for outcome in found] == expected
    assert [outcome.count for outcome in found] == [len(one) for one in expected]


@given(
    st.lists(TIDS, max_size=20),
    st.lists(st.tuples(st.sampled_from(["first", "second", "own"]), TIDS), min_size=1, max_size=12),
)
def test_rows_of_outcomes_are_those_of_each_in_turn(tids: list[int], asked: list[tuple[str, int]]) -> None:
    numbers, every = np.array(tids, dtype=np.int64), np.arange(7)
    jobs = {name: outcomes_of(frame(tids), numbers, every, PLAIN) for name in ("first", "second")}
    own = [Outcome(frame([tid])) for tid in range(7)]
    outcomes = [own[tid] if name == "own" else jobs[name][tid] for name, tid in asked]
    assert rows_of(outcomes).rows() == [row for outcome in outcomes for row in outcome.rows.rows()]


NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
CONSTANTS = st.integers(-(10**6), 10**6) | st.floats(-9, 9)
LEAVES: st.SearchStrategy[Formula] = st.one_of(
    st.sampled_from([("ref", "a"), ("ref", "b")]), st.tuples(st.just("const"), CONSTANTS)
)
FORMULAS: st.SearchStrategy[Formula] = st.one_of(
    LEAVES,
    st.tuples(st.sampled_from(["add", "sub"]), LEAVES, LEAVES),
    st.tuples(st.sampled_from(["neg", "trunc"]), LEAVES),
)
WAYS: st.SearchStrategy[list[Comparison]] = st.sampled_from([[">", ">="], ["<", "<="]])
LOWEST, HIGHEST = -(2**62), 2**62


@given(
    st.data(), WAYS, st.lists(FORMULAS, min_size=1, max_size=3),
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
)  # fmt: skip
def test_bounds_of_all_triggers_are_those_of_each(
    data: st.DataObject, ways: list[Comparison], formulas: list[Formula],
    cells: list[tuple[int | None, int | None]],
) -> None:  # fmt: skip
    bound = Bound(tuple((data.draw(st.sampled_from(ways)), formula) for formula in formulas))
    rows = pl.DataFrame(cells, schema={"a": pl.Int64, "b": pl.Int64}, orient="row")
    none = LOWEST if ways[0] == ">" else HIGHEST
    one_by_one = [bound.evaluate(row) for row in rows.rows(named=True)]
    expected = [none if value is None else value for value in one_by_one]
    if all(-(2**63) <= value < 2**63 for value in expected):  # what else there is fits no column of times
        assert bound.evaluate_all(rows, none).tolist() == expected
