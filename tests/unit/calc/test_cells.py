"""Rows as JSON text: many at once are written as one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.calc import cells
from millrace_core.calc.cells import FEW, joined, json_rows, json_text, json_texts, plain

TYPES: dict[Any, st.SearchStrategy[object]] = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1), pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Int8: st.integers(-128, 127), pl.Float64: st.floats(), pl.Float32: st.floats(width=32),
    pl.Boolean: st.booleans(), pl.String: st.text(), pl.Binary: st.binary(), pl.Null: st.none(),
}  # fmt: skip


@given(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_many_rows_are_the_objects_that_each_of_them_is(
    types: list[Any], count: int, data: st.DataObject
) -> None:
    columns = []
    for place, kind in enumerate(types):
        given_ = data.draw(st.lists(st.none() | TYPES[kind], min_size=count, max_size=count))
        columns.append(pl.Series(f"r{place}", given_, dtype=kind))
    frame = plain(pl.concat([pl.DataFrame(columns)] * FEW))
    names = [f'n"{place}' for place in range(len(types))]
    found = [msgspec.json.decode(text) for text in json_rows(frame, names)]
    alone = [msgspec.json.decode(text) for one in frame.iter_slices(1) for text in json_rows(one, names)]
    assert repr(found) == repr(alone)
    expected = [dict(zip(names, row, strict=True)) for row in frame.iter_rows()]
    assert repr(found) == repr(expected)


def test_columns_of_one_name_are_written_too() -> None:
    frame = pl.DataFrame({"a": [1] * FEW, "b": [2] * FEW})
    assert json_rows(frame, ["x", "x"]) == ['{"x":2}'] * FEW


@pytest.mark.parametrize("count", [0, 1, FEW - 1, FEW, FEW + 1])
def test_each_row_has_its_text(count: int) -> None:
    assert json_rows(pl.DataFrame({"a": range(count)}), ["n"]) == [f'{{"n":{n}}}' for n in range(count)]


def test_they_are_written_by_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes many rows fast: an object for each takes six times as long."""
    monkeypatch.setattr(cells, "_encode", None)
    assert len(json_rows(pl.DataFrame({"ts": range(FEW), "avg": [0.5] * FEW}), ["ts", "avg"])) == FEW


@pytest.mark.parametrize("count", [0, 1, FEW - 1, FEW, FEW + 1])
def test_columns_are_joined_row_by_row(count: int) -> None:
    texts, numbers = [f"ä{n}" for n in range(count)], [2**62 + n for n in range(count)]
    found = joined(count, ["<", texts, ',"', numbers, ""])
    assert found == [f'<ä{n},"{2**62 + n}' for n in range(count)]


@given(st.lists(st.text() | st.dictionaries(st.text(), st.text(), max_size=2)))
def test_each_value_has_its_json_text(values: list[object]) -> None:
    assert json_texts(values) == [json_text(value) for value in values]
