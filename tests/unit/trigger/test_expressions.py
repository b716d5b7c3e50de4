"""The table of operators over rows, where its rules are not obvious; the rest is compared with engines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from millrace_core.model.expression import AnyExpression, Call, Constant, Field
from millrace_core.trigger.rows import Signal, evaluate
from millrace_core.trigger.rows.expressions import LITERAL, OPERATIONS, REPEATS, polars

A, B = Field("a"), Field("b")


def told(expression: AnyExpression, **columns: list[Any]) -> list[Any]:
    frame = pl.DataFrame(columns)
    return frame.with_columns(polars(expression).alias("found"))["found"].to_list()


@pytest.mark.parametrize("name", ["and", "or"])
def test_logic_has_three_values(name: str) -> None:
    values = [True, False, None]
    pairs = [(a, b) for a in values for b in values]
    decisive = name == "or"
    wanted = [decisive if decisive in pair else None if None in pair else not decisive for pair in pairs]
    columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
    assert told(Call(name, (A, B)), **columns) == wanted
    assert told(Call(name, (A, B, A, B)), **columns) == wanted


def test_whole_division_goes_towards_zero() -> None:
    pairs = [(a, b) for a in (-7, -6, 0, 6, 7, None) for b in (-3, 3, 0, None)]
    columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
    whole = [None if a is None or not b else int(a / b) for a, b in pairs]
    rest = [None if a is None or not b else int(math.fmod(a, b)) for a, b in pairs]
    assert told(Call("whole_div", (A, B)), **columns) == whole
    assert told(Call("rest", (A, B)), **columns) == rest
    reals = {name: [None if v is None else float(v) for v in values] for name, values in columns.items()}
    assert told(Call("real_rest", (A, B)), **reals) == rest
    assert told(Call("real_rest", (A, Constant(0.1))), a=[1.0, None]) == [math.fmod(1.0, 0.1), None]


def test_integers_wrap_and_reals_are_bounded() -> None:
    assert told(Call("cast", (A, Constant("TINYINT"))), a=[127, 128, -129, 256, None]) == [
        127, -128, 127, 0, None,
    ]  # fmt: skip
    assert told(Call("floor", (A,)), a=[-0.5, 1e300, -1e300, math.nan, None]) == [
        -1, 2**63 - 1, -(2**63), 0, None,
    ]  # fmt: skip
    assert told(Call("add", (A, Constant(1))), a=[2**63 - 1]) == [-(2**63)]


def test_texts_become_numbers_or_null() -> None:
    texts = ["12", " -3.7 ", "+.5", "1e3", "2.", "1f", "Infinity", "-inf", "", "x", "1 2", "0x1", None]
    assert told(Call("parse_real", (A,)), a=texts) == [
        12.0, -3.7, 0.5, 1000.0, 2.0, 1.0, math.inf, -math.inf, None, None, None, None, None,
    ]  # fmt: skip
    texts = ["12", " -3.7 ", "+4", "1e3", "99999999999999999999", "", None]
    assert told(Call("parse_whole", (A,)), a=texts) == [12, -3, 4, None, None, None, None]


@pytest.mark.parametrize(("start", "length"), [(s, n) for s in range(-6, 7) for n in (None, 0, 1, 3, 9)])
def test_substring_counts_from_either_end(start: int, length: int | None) -> None:
    text = "aäbc"
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + length
    wanted = "".join(c for i, c in enumerate(text) if begin <= i < end)
    places = (Constant(start),) if length is None else (Constant(start), Constant(length))
    assert told(Call("substring", (A, *places)), a=[text, None]) == [wanted, None]


def test_extremes_pass_over_null_and_case_over_what_is_not_met() -> None:
    assert told(Call("greatest", (A, B)), a=[1, None, None], b=[2, 3, None]) == [2, 3, None]
    assert told(Call("least", (A, B)), a=[1, None, None], b=[2, 3, None]) == [1, 3, None]
    case = Call("case", (A, Constant("yes"), B, Constant("also"), Constant(None)))
    assert told(case, a=[True, None, False], b=[True, True, None]) == ["yes", "also", None]


SIMPLE: dict[str, tuple[Any, ...]] = {
    "nullif": (A, B), "greatest": (A, B), "least": (B, A), "div": (A, B), "ln": (A,),
    "in": (A, B, Constant(3)), "first_match": (Field("s"), Constant("(x+)")),
    "locate": (Constant("b"), Field("s")), "substring": (Field("s"), A, B), "right": (Field("s"), A),
    "parse_real": (Field("s"),), "day_text": (A,),
}  # fmt: skip
FRAME: dict[str, list[Any]] = {
    "a": [1, -2, 3, None, 2], "b": [1, 2, None, 4, 0], "s": ["axxb", "3.5", None, "", "-inf"],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REPEATS))
def test_operands_that_are_calls_give_the_same_as_columns(name: str) -> None:
    """They are computed before, for an operation that has them several times."""
    as_calls = {field: Call("coalesce", (Field(field),)) for field in FRAME}
    calls = tuple(as_calls[one.name] if isinstance(one, Field) else one for one in SIMPLE[name])
    for rows in (5, 1, 0):
        columns = {field: cells[:rows] for field, cells in FRAME.items()}
        schema = {"a": pl.Float64 if name == "ln" else pl.Int64, "b": pl.Int64, "s": pl.String}
        frame = pl.DataFrame(columns, schema)
        plain, bound = (
            frame.with_columns(polars(Call(name, one)).alias("r"))["r"] for one in (SIMPLE[name], calls)
        )
        assert bound.equals(plain, null_equal=True) and bound.dtype == plain.dtype


def test_operands_that_are_constants_may_stand_beside_calls() -> None:
    inner = Call("greatest", (Constant(2), A, Call("neg", (B,)), Constant(None)))
    assert told(Call("greatest", (Constant(1), inner)), a=[1, 5, None], b=[-9, 0, None]) == [9, 5, 2]
    assert told(Call("div", (Constant(1), Call("abs", (A,)))), a=[-4, 0, None]) == [0.25, None, None]
    assert told(Call("nullif", (Constant(3), Call("abs", (A,)))), a=[-3, 2]) == [None, 3]


def test_days_outside_four_digits_have_no_text() -> None:
    days = [0, -1, 20_454, 2_932_896, 2_932_897, 2**40, -719_162, -719_163, None]
    assert told(Call("day_text", (A,)), a=days) == [
        "1970-01-01", "1969-12-31", "2026-01-01", "9999-12-31", None, None, "0001-01-01", None, None,
    ]  # fmt: skip


def test_a_signal_has_a_value_for_every_row() -> None:
    frame = pl.DataFrame({"a": [1, None, 3]})
    big = Call("gt", (A, Constant(2)))
    flag, always, gone = (
        Signal("big", big, "flag"), Signal("always", Call("eq", (Constant(1), Constant(1))), "flag"),
        Signal("gone", Call("is_null", (Field("dropped"),)), "flag"),
    )  # fmt: skip
    cell, none = Signal("big", big), Signal("none", Field("dropped"))
    found = evaluate([flag, always, gone, cell, none], frame)
    assert found[flag].dtype == np.bool_ and found[flag].tolist() == [False, False, True]
    assert found[always].tolist() == [True, True, True]
    assert found[gone].tolist() == [False, False, False]  # nothing is known of a column that is not there
    assert found[cell].tolist() == [False, None, True]
    assert found[none].tolist() == [None, None, None]
    assert all(len(values) == 0 for values in evaluate([flag, always], frame.clear()).values())


def test_constant_arguments_belong_to_operations() -> None:
    assert LITERAL.keys() <= OPERATIONS.keys()
    with pytest.raises(KeyError):
        polars(Call("no such operation", (A,)))
