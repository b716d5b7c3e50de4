"""Slices of about one size, of rows in memory and of files that are larger than a slice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.store import density
from millrace_core.store.density import Density


@given(
    times=st.lists(st.integers(0, 300), max_size=60),
    files=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50), st.integers(1, 40)), max_size=4),
    floor=st.integers(0, 350),
    target=st.integers(1, 50),
)
def test_slices_cover_all_once_and_are_about_as_large_as_they_may_be(
    times: list[int], files: list[tuple[int, int, int]], floor: int, target: int
) -> None:
    rows = Density()
    rows.add_times(np.array(times, dtype=np.int64))
    rows.add_files([(first, first + length, count) for first, length, count in files], floor)
    found = list(rows.slices(-5, 400, target))
    assert [found[0][0], found[-1][1]] == [-5, 400]
    assert all(low == high + 1 for (_, high), (low, _) in pairwise(found))
    for low, high in found:
        assert rows.count(low, high) <= target or low == high


def test_a_file_of_more_rows_than_a_slice_is_cut_by_its_time() -> None:
    rows = Density()
    rows.add_files([(0, 999_999, 1_000_000), (1_000_000, 1_999_999, 1_000_000)], 1_500_000)
    assert rows.count(0, 1_999_999) == 1_500_000
    sizes = [rows.count(low, high) for low, high in rows.slices(0, 1_499_999, 400_000)]
    assert len(sizes) < 10 and max(sizes) <= 400_000


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "SAMPLED", 100)
    rows = Density()
    rows.add_times(np.random.default_rng(1).permutation(10_000))
    rows.add_times(np.arange(50), times=2)
    assert rows.count(0, 9_999) == 10_100
    assert 4_000 < rows.count(5_000, 9_999) < 6_000
    assert rows.count(20_000, 30_000) == 0


def test_no_rows_are_one_slice_and_no_time_is_none() -> None:
    assert list(Density().slices(0, 10, 5)) == [(0, 10)]
    assert list(Density().slices(10, 0, 5)) == []
