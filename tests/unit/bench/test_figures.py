"""The bench's arithmetic: statistics, goals, the rows it writes and what must come of them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from bench import goals, notify_clients, notify_throughput
from bench.stats import at, latencies_ms, percentile, rate
from bench.steady import BenchError, check, since
from bench.workload import BASE, Block, Readings, closed, counts, rows_of, steady, windows
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.notice.message import Outgoing, compose
from millrace_core.wire import notices


@pytest.mark.parametrize(
    ("samples", "share", "value"),
    [
        ([5], 0.5, 5),
        ([3, 1, 2], 0.5, 2),
        ([1, 2, 3, 4], 0.5, 2),
        ([1, 2, 3, 4], 1, 4),
        (range(1, 101), 0.99, 99),
    ],
)
def test_percentile(samples: Any, share: float, value: float) -> None:
    assert percentile(samples, share) == value


@given(st.lists(st.floats(0, 100), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1]))
def test_a_percentile_has_its_share_of_the_samples(samples: list[float], share: float) -> None:
    found = percentile(samples, share)
    assert sum(one <= found for one in samples) >= share * len(samples)
    assert sum(one < found for one in samples) < share * len(samples)


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 0), ([1.0], 1.5)])
def test_no_percentile(samples: list[float], share: float) -> None:
    with pytest.raises(ValueError):
        percentile(samples, share)


def test_latencies_are_milliseconds() -> None:
    assert latencies_ms([0.1, 0.2, 0.3001]) == {"p50": 200.0, "p99": 300.1}


def test_rate() -> None:
    assert rate(1_000_000, 3) == 333_333
    assert rate(10, 3) == 3.33
    with pytest.raises(ValueError):
        rate(1, 0)


def test_at() -> None:
    assert at({"a": {"1": 2}, "b": 3}, "a.1") == 2
    assert at({"b": 3}, "b") == 3
    assert at({"b": 3}, "b.x") is None
    assert at({}, "a.1") is None


FULL: dict[str, Any] = {
    "trigger_latency_ms": {"p50": 15, "p99": 61},
    "trigger_latency_5000_ms": {"p50": 120, "p99": 250},
    "result_latency_ms": {"p50": 61, "p99": 150},
    "result_latency_5000_ms": {"p50": 100, "p99": 301},
    "trigger_rows_per_s": {"1": 90, "100": 89, "arrow": 1_999_999},
    "plain_spark_rows_per_s": {"1": 100, "100": 100},
    "calc_triggers_per_s": 1500,
    "calc_one_by_one_per_s": 51,
    "rss_bytes": 4_000_000_001,
    "idle_cores": 0.06,
    "start_seconds": 20,
}


def test_goals() -> None:
    verdicts = {figure.name: figure.met(FULL) for figure in goals.FIGURES}
    assert {name for name, met in verdicts.items() if met} == {
        "trigger_latency_ms.p50",
        "trigger_latency_5000_ms.p50",
        "trigger_latency_5000_ms.p99",
        "result_latency_ms.p99",
        "result_latency_5000_ms.p50",
        "trigger_rows_per_s.1 / plain_spark_rows_per_s.1",
        "calc_triggers_per_s",
        "idle_cores",
    }
    assert {name for name, met in verdicts.items() if met is False} == {
        "trigger_latency_ms.p99",
        "result_latency_ms.p50",
        "result_latency_5000_ms.p99",
        "trigger_rows_per_s.100 / plain_spark_rows_per_s.100",
        "trigger_rows_per_s.arrow",
        "calc_triggers_per_s / calc_one_by_one_per_s",
        "rss_bytes",
    }
    assert len(goals.table(FULL)) == len(goals.FIGURES)


def test_what_was_not_measured_is_not_shown() -> None:
    assert goals.table({"trigger_rows_per_s": {"1": 5}}) == [("trigger_rows_per_s.1", "5 rows/s", "", "")]
    assert "start_seconds  20 s" in goals.text({"start_seconds": 20})
    assert "alone" not in goals.text({"start_seconds": 20})


def test_the_trigger_stage_comes_second_and_says_what_it_leaves_out() -> None:
    lines = goals.text(FULL).splitlines()
    (label,) = [number for number, line in enumerate(lines) if goals.TRIGGER_STAGE in line]
    assert {line.split("_")[0] for line in lines[label + 1 :]} == {"trigger", "plain"}
    assert not any(line.startswith(("trigger_", "plain_")) for line in lines[:label])


def test_the_keys_of_the_results() -> None:
    assert set(goals.KEYS) == {*FULL, "machine", "versions", "commit", "command", "date"}
    assert len(set(goals.KEYS)) == len(goals.KEYS)


# -- rows ------------------------------------------------------------------------------------------------


def test_a_steady_load_closes_a_window_of_each_table_every_second() -> None:
    rows = steady(tables=20, rate=200, seconds=10, width=1000)
    assert len(rows) == 2000
    by_table: dict[str, list[Any]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row)
    for ours in by_table.values():
        assert [b.ts - a.ts for a, b in pairwise(ours)] == [100] * 99
        closes = [row.closes for row in ours if row.closes is not None]
        assert closes == [BASE + second * 1000 for second in range(len(closes))]
        for row in ours:
            assert row.closes is None or row.ts - 100 < row.closes + 1000 <= row.ts
    turns = {number // 20 % 10 for number, row in enumerate(rows) if row.closes is not None}
    assert len(turns) == 10  # not all tables in the same tenth of a second


def test_counts() -> None:
    rows = steady(tables=2, rate=20, seconds=3, width=1000)
    found = counts(rows, 1000)
    assert sum(found.values()) == 60
    assert found["d0", BASE] == 10
    assert found["d1", BASE] == 5  # half a window ahead


def test_a_run_with_wrong_results_does_not_count() -> None:
    rows = steady(tables=2, rate=20, seconds=3, width=1000)
    written = {(row.table, row.closes): 0.0 for row in rows if row.closes is not None}
    right = {window: count for window, count in counts(rows, 1000).items() if window in written}
    check(rows, right, written)
    window = next(iter(right))
    for wrong in ({**right, window: 9}, {**right, ("d7", BASE): 1}, dict(list(right.items())[1:])):
        with pytest.raises(BenchError):
            check(rows, wrong, written)


def test_what_comes_while_it_warms_up_does_not_count() -> None:
    written = {("a", 1): 10.0, ("a", 2): 12.0, ("a", 3): 15.0}
    assert since(written, {("a", 1): 19.0, ("a", 2): 12.5, ("a", 3): 15.25}, warm=2) == [0.5, 0.25]


@pytest.mark.parametrize(("per_message", "arrow"), [(1, False), (10, False), (10, True)])
def test_a_block_has_a_row_a_second(per_message: int, arrow: bool) -> None:
    block = Block(tables=3, first=20, last=50, per_message=per_message, arrow=arrow)
    values = list(block.values())
    assert len(values) * 3 == block.messages
    rows = [row for value in values for row in rows_of(value)]
    assert [row["ts"] for row in rows] == [BASE + second * 1000 for second in range(20, 50)]
    assert block.rows == 90


@given(st.integers(1, 500), st.integers(1, 90))
def test_windows_hold_all_rows_and_all_but_the_last_are_closed(last: int, width: int) -> None:
    found = windows(last, width)
    assert sum(found.values()) == last
    assert max(found) <= BASE + (last - 1) * 1000
    assert closed(last, width) == len(found) - 1


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (None, []),
        (b"", []),
        (b'\x00{"op":"drop"}', []),
        (b'{"ts":1,"v":2}', [{"ts": 1, "v": 2}]),
        (b'[{"ts":1},{"ts":2}]', [{"ts": 1}, {"ts": 2}]),
        (b'{"tags":{"k":1},"rows":[{"ts":1}]}', [{"ts": 1}]),
        (b'{"ts":[1,2],"v":[3,null]}', [{"ts": 1, "v": 3}, {"ts": 2, "v": None}]),
    ],
)
def test_rows_of_every_form_of_message(value: bytes | None, rows: list[Any]) -> None:
    assert rows_of(value) == rows


def test_readings_are_what_is_expected_of_them() -> None:
    readings = Readings(groups=3, windows=4, each=5)
    expected = readings.expected()
    assert len(expected) == 12
    messages = [json.loads(readings.message(group)) for group in range(3)]
    assert sum(map(len, messages)) == readings.total
    for (table, start), (average, highest, count) in expected.items():
        rows = messages[int(table[1:])]
        ours = [row["v"] for row in rows if start <= row["ts"] < start + readings.width]
        assert (sum(ours) / len(ours), max(ours), len(ours)) == (average, highest, count)
    assert all(rows[-1]["ts"] == BASE + 4 * readings.width for rows in messages)


@pytest.mark.parametrize(
    ("took", "share", "value"),
    [([[3, 1]], 0.5, 4), ([[0, 98], [7, 2]], 0.98, 1), ([[0, 98], [7, 2]], 0.99, 8)],
)
def test_a_percentile_of_counts(took: Any, share: float, value: float) -> None:
    assert notify_throughput.percentile(took, share) == value


def test_events_that_the_bench_writes_are_read_by_its_clients() -> None:
    record = notify_throughput._record(range(3, 5), ("ws://a:1/",))
    batch = notices.read(record.value or b"")
    text = compose("id", 1, [Outgoing(n.stream, bytes(n.text)) for n in batch.notices])
    assert [event.n for event in notify_clients.decode(text).streams[0].events] == [3, 4]
