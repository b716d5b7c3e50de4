"""The jobs of a history: in parts that a job can take, and each stored row read from its file once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from bench import history
from bench.in_process import BASE, InProcess, append, in_process, store, where

from calc_svc.jobs import answers as recalc
from calc_svc.jobs import compute
from millrace_core.calc import job_size

TABLES, SECONDS = 3, 240


@pytest.fixture
def one(duck: Any) -> Iterator[InProcess]:
    """A store most of whose rows are in files alone; SQL is run on DuckDB."""
    with in_process(memory_rows=200, spark=False) as found:
        found.engine = duck
        past = found.table("past", ("v",), TABLES)
        store(found, past, TABLES, SECONDS, at_once=40)
        assert where(past)["in_memory"] <= 200
        yield found


def fill(one: InProcess) -> dict[Any, Any]:
    past = one.store.tables()[0]
    return history._fill(one, one.stream(history.STREAM), TABLES * SECONDS, past.positions)


@pytest.mark.parametrize("rows_per_job", [100, 300, 10_000])
def test_every_window_comes_once_whatever_the_size_of_jobs(
    one: InProcess, duck: Any, monkeypatch: pytest.MonkeyPatch, rows_per_job: int
) -> None:
    monkeypatch.setattr(job_size, "ROWS_PER_JOB", rows_per_job)
    monkeypatch.setattr(recalc, "ROWS_PER_JOB", rows_per_job)
    history._check_results(fill(one), TABLES, SECONDS, "past_")
    assert (duck.only.jobs > 3) == (rows_per_job < TABLES * SECONDS)


def test_triggers_of_too_many_rows_are_divided_not_run_one_by_one(
    one: InProcess, duck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "SET_ROWS", 250)
    history._check_results(fill(one), TABLES, SECONDS, "past_")
    assert 1 < duck.only.jobs < 9


def test_rows_of_files_are_read_once_until_they_change(
    one: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = one.store.tables()[0]
    reads: list[tuple[int, int]] = []
    read = past.delta.read

    def counted(low: int, high: int) -> Any:
        reads.append((low, high))
        return read(low, high)

    monkeypatch.setattr(past.delta, "read", counted)

    def value(low: int = 10, high: int = 20) -> int:
        data, child = past.view(BASE + low * 1000, BASE + high * 1000).slices.within(
            BASE + 15_000, BASE + 15_000
        )
        assert sorted(child.tolist()) == [0, 1, 2]
        return int(data["v"].sum())

    assert [value(), value(12, 18), value(9, 20)] == [45, 45, 45]
    assert len(reads) == 1
    append(past, 1, np.array([BASE + 15_000]), {"v": np.array([16])}, 99)
    assert value() == 46
    assert len(reads) == 2
    past.let_go(1e18)
    assert value() == 46
    assert len(reads) == 3
