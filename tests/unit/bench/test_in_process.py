"""calc-svc's parts as the bench puts them together: a stored history, and what is held against it."""

from __future__ import annotations

import pytest
from bench import calc_shapes, goals, history, select_scan
from bench.goals import Figure
from bench.in_process import in_process, store, where
from bench.stage import BenchError

TABLES, SECONDS = 3, 200


def test_a_history_of_rows_in_memory_and_in_files_has_all_windows_once() -> None:
    with in_process(memory_rows=300, spark=False) as one:
        past = one.table("past", ("v",), TABLES)
        store(one, past, TABLES, SECONDS, at_once=50)
        found = where(past)
        assert found["in_files"] == TABLES * SECONDS
        assert 0 < found["in_memory"] <= 300
        spec = one.stream(history.STREAM)
        batches = list(history._answer(one, spec, TABLES * SECONDS, past.positions))
        history._check_events(batches, TABLES, SECONDS)
        with pytest.raises(BenchError, match="events of"):
            history._check_events([*batches, *batches], TABLES, SECONDS)
        with pytest.raises(BenchError, match="rows were read"):
            list(history._answer(one, spec, 7, past.positions))


def test_results_of_a_history_are_held_against_the_rows() -> None:
    base = history.windows(SECONDS, history.WIDTH)
    starts = sorted(base)[:3]
    sums = [sum(second % 97 for second in range(n * 60, n * 60 + 60)) / 60 for n in range(3)]
    found = {("h0", start): {"n": 60, "a": a} for start, a in zip(starts, sums, strict=True)}
    history._check_results(found, 1, SECONDS, "h")
    found["h0", starts[1]] = {"n": 59, "a": sums[1]}
    with pytest.raises(BenchError, match="1 results are wrong"):
        history._check_results(found, 1, SECONDS, "h")


def test_latencies_of_a_stretch_of_time() -> None:
    written = {("d0", 0): 1.0, ("d0", 1): 2.0, ("d0", 2): 3.0}
    seen = {window: at + 0.5 for window, at in written.items()}
    assert history._latencies(written, seen, 2.0, 3.0) == [0.5]
    with pytest.raises(BenchError, match="no window"):
        history._latencies(written, seen, 4.0, 5.0)


@pytest.mark.parametrize("figures", [calc_shapes.FIGURES, select_scan.FIGURES, history.FIGURES])
def test_the_figures_of_a_bench_are_told_apart(figures: tuple[Figure, ...]) -> None:
    assert len({figure.name for figure in figures}) == len(figures)


def test_a_table_of_other_figures() -> None:
    figures = (Figure("one.a", "s"), Figure("one.a", "x", "<=", 2, "one.b"), Figure("none", "s"))
    assert goals.table({"one": {"a": 6, "b": 2}}, figures) == [
        ("one.a", "6 s", "", ""), ("one.a / one.b", "3 x", "<= 2", "MISSED"),
    ]  # fmt: skip
