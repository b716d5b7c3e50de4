"""The comparison's pure parts: what must come of the rows, what is due when, and what counts as the same."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from bench.peers import __main__ as peers
from bench.peers import compare, measures, report, results
from bench.peers.__main__ import parser, size_of
from bench.peers.jobs import JOBS, KEY, PHASES, Job, device, expected, texts, value
from bench.peers.millrace import Triggers, arrow, until_ready
from bench.peers.steady import Pace
from bench.peers.usage import Watch
from bench.stage import BenchError
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode, MillraceError

from ...conftest import examples

ROUNDS = 60


def rows_written(job: Job, phase: int, per_message: int = 1) -> list[tuple[int, int]]:
    """(ts, v) of a device as its messages say."""
    found: list[tuple[int, int]] = []
    for block in texts(job, 0, ROUNDS, per_message):
        told = json.loads(block[phase])
        found += [(row["ts"], row["v"]) for row in (told if isinstance(told, list) else [told])]
    return found


def by_hand(job: Job, rows: list[tuple[int, int]]) -> dict[int, tuple[float, ...]]:
    """start -> the job's columns, worked out row by row."""
    if job.shape == "tumbling":
        windows: dict[int, list[int]] = defaultdict(list)
        for ts, v in rows:
            windows[ts // job.width_ms * job.width_ms].append(v)
        closed = [start for start in windows if rows[-1][0] >= start + job.width_ms]
        return {one: (sum(vs) / len(vs), min(vs), max(vs)) for one in closed if (vs := windows[one])}
    found: dict[int, tuple[float, ...]] = {}
    own: list[tuple[int, int]] = []
    for ts, v in rows:
        if job.shape == "session":
            if own and ts - own[-1][0] > job.gap_ms:
                found[own[0][0]] = (own[-1][0], len(own))
                own = []
            own.append((ts, v))
        elif own or v >= job.high:
            own.append((ts, v))
            if v < job.low:
                found[own[0][0]] = (ts, len(own), max(one for _, one in own))
                own = []
    return found


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)
@pytest.mark.parametrize("phase", [0, 7, 99])
def test_what_must_come_of_the_rows(job: Job, phase: int) -> None:
    found = expected(job, ROUNDS, 1, PHASES, 1).filter(pl.col("device") == device(0, phase))
    told = {row["start"]: tuple(row[column] for column in job.columns) for row in found.iter_rows(named=True)}
    assert told == by_hand(job, rows_written(job, phase))
    assert told


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)
def test_rows_are_the_same_in_messages_of_any_size(job: Job) -> None:
    assert (
        rows_written(job, 3, 20) == rows_written(job, 3) == [(job.ts(n), value(3, n)) for n in range(ROUNDS)]
    )


@pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)
def test_a_result_is_closed_by_the_row_of_its_round(job: Job) -> None:
    whole = expected(job, ROUNDS, 1, PHASES, 1)
    for rounds in range(1, ROUNDS, 7):
        known = whole.filter(pl.col("closed") < rounds)
        assert expected(job, rounds, 1, PHASES, 1).sort(KEY).equals(known.sort(KEY))


def test_streams_share_tables_in_turn_and_a_device_measures_what_its_phase_says() -> None:
    found = expected(JOBS["tumbling"], 12, 2, 101, 3)
    names = found.group_by("stream").agg(pl.col("device").str.slice(0, 2).unique()).sort("stream")
    assert names["device"].to_list() == [["t0"], ["t1"], ["t0"]]
    of_stream = found.filter(pl.col("stream") == 0)
    first, again = (of_stream.filter(pl.col("device") == device(0, n)).drop("device") for n in (0, PHASES))
    assert first.equals(again)


@settings(max_examples=examples(20))
@given(st.sampled_from(list(JOBS)), st.integers(1, 300), st.sampled_from([1, 7, 100]))
def test_a_part_is_made_of_whole_messages_and_ends_behind_results(name: str, wanted: int, each: int) -> None:
    job = JOBS[name]
    rounds = job.rounds(wanted, each)
    assert rounds >= wanted and rounds % each == 0
    due = compare.due(expected(job, rounds, 1, PHASES, 1), rounds - job.behind(each))
    assert due["device"].n_unique() == PHASES
    if each == 1 and name != "event":
        assert due["closed"].max() == rounds - job.behind(1)


def session_results() -> tuple[pl.DataFrame, pl.DataFrame, tuple[str, ...]]:
    job = JOBS["session"]
    whole = expected(job, ROUNDS, 1, 3, 1)
    return whole.drop("closed"), whole, job.columns


def test_right_results_count_and_what_is_not_due_may_be_missing() -> None:
    found, whole, columns = session_results()
    compare.check(found.sample(fraction=1, shuffle=True, seed=1), whole, ROUNDS, columns)
    early = whole.filter(pl.col("closed") <= 30).drop("closed")
    compare.check(early, whole, 30, columns)
    with pytest.raises(BenchError, match=r"3 of .* missing"):
        compare.check(early, whole, 40, columns)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda f: f.slice(1), "missing"),
        (lambda f: f.with_columns(n=pl.when(pl.int_range(pl.len()) == 2).then(9).otherwise("n")), "wrong"),
        (lambda f: f.with_columns(n=pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise("n")), "wrong"),
        (lambda f: pl.concat([f, f.head(1).with_columns(start=pl.col("start") + 1)]), "not expected"),
    ],
)
def test_other_results_do_not_count(spoil: Any, what: str) -> None:
    found, whole, columns = session_results()
    with pytest.raises(BenchError, match=what):
        compare.check(spoil(found), whole, ROUNDS, columns)


def test_a_peer_that_tells_less_is_compared_by_what_it_tells() -> None:
    found, whole, _ = session_results()
    compare.check(found.select(*KEY, "n"), whole, ROUNDS, ("n",))
    compare.check(found.select(KEY), whole, ROUNDS, ())
    with pytest.raises(BenchError, match="missing"):
        compare.check(found.select(KEY).slice(1), whole, ROUNDS, ())


def test_a_result_may_come_again_but_not_with_other_figures() -> None:
    found, _, columns = session_results()
    twice = pl.concat([found, found.head(2)])
    assert len(compare.distinct(twice, columns)) == len(found)
    other = pl.concat([found, found.head(1).with_columns(n=pl.col("n") + 1)])
    with pytest.raises(BenchError, match="arrived twice"):
        compare.distinct(other, columns)


@pytest.mark.parametrize("measure", measures.MEASURES)
@pytest.mark.parametrize("size", [measures.Size(), measures.QUICK], ids=["full", "quick"])
def test_every_measure_has_points_that_can_be_told_apart(measure: str, size: measures.Size) -> None:
    found = measures.points(measure, size, None)
    told = [(point.job.name, *point.of.items()) for point in found]
    assert found and len(set(told)) == len(told)


def test_the_quick_run_has_a_point_of_each_measure_and_each_job_from_a_filled_topic() -> None:
    found = {name: measures.points(name, measures.QUICK, None) for name in measures.MEASURES}
    assert {name: len(points) for name, points in found.items()} == dict.fromkeys(measures.MEASURES, 1)
    filled = {points[0].job.name for name, points in found.items() if name not in ("latency", "recovery")}
    assert filled == set(JOBS)


@settings(max_examples=examples(20))
@given(st.sampled_from([1_000, 50_000]), st.sampled_from([10, 1_000]), st.sampled_from([1, 100]))
def test_the_main_part_has_the_rows_that_are_asked_for(rows: int, devices: int, each: int) -> None:
    load = measures.filled(JOBS["tumbling"], rows, devices, each)
    assert load.counted >= rows and load.counted >= load.rows(load.main) * 0.7
    assert load.warm % each == load.main % each == 0


def test_a_steady_load_has_its_rate() -> None:
    load = Pace(200, 10, 20).load(JOBS["session"])
    assert load.rows(load.main) == 200 * 20 and load.rows(load.warm) == 200 * 10
    with pytest.raises(ValueError, match="5 rows a second"):
        Pace(5, 1, 1).load(JOBS["session"])


def test_the_command_line_sets_the_points() -> None:
    given = parser().parse_args(["--only", "throughput,latency", "--devices", "5,6", "--rows", "70"])
    size = size_of(given)
    assert (given.only, size.devices, size.rows, size.grown) == (["throughput", "latency"], (5, 6), 70, 70)
    for wrong in (["--only", "weight"], ["--peers", "nobody"], ["--devices", "0"]):
        with pytest.raises(SystemExit):
            parser().parse_args(wrong)


ABOUT = {
    "machine": {"cores": 2},
    "versions": {"a": "1"},
    "commit": "c0",
    "command": "x",
    "date": "2026-01-01",
}


def run(peer: str, rows_per_s: float | None, devices: int = 1000, job: str = "event") -> dict[str, Any]:
    told: dict[str, Any] = {"job": job, "of": {"devices": devices}, "peer": peer}
    if rows_per_s is None:
        return told | {"error": "3 results are wrong\nand more"}
    return told | {"figures": {"rows_per_s": rows_per_s, "latency_ms": {"p50": 8.25}}}


def put_together(*runs: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    found: Any = results.EMPTY
    for part, measure, one in runs:
        found = results.merged(found, part, ABOUT | {"date": part}, measure, one, list(measures.MEASURES))
    return dict(found)


def test_parts_are_put_together_by_measure() -> None:
    found = put_together(
        ("p1", "recovery", run("a", 1)),
        ("p1", "throughput", run("a", 2, 100_000)),
        ("p2", "throughput", run("b", 3)),
        ("p2", "throughput", run("a", 4)),
    )
    assert list(found["measures"]) == ["throughput", "recovery"] and set(found["parts"]) == {"p1", "p2"}
    assert [(one["peer"], one["of"]["devices"], one["part"]) for one in found["measures"]["throughput"]] == [
        ("b", 1000, "p2"),
        ("a", 1000, "p2"),
        ("a", 100_000, "p1"),
    ]
    assert results.taken(found, "throughput", "event", {"devices": 1000}) == {"a", "b"}
    assert results.taken(found, "throughput", "event", {"devices": 10}) == set()
    assert results.taken(found, "latency", "event", {"devices": 1000}) == set()


def test_a_later_run_takes_the_place_of_an_earlier_one() -> None:
    found = put_together(("p1", "throughput", run("a", 1)), ("p2", "throughput", run("a", None)))
    assert [one.get("figures") for one in found["measures"]["throughput"]] == [None]
    assert set(found["parts"]) == {"p2"}


def test_the_results_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "results" / "peers.json"
    assert results.read(place) == results.EMPTY
    found = put_together(("p1", "latency", run("a", 1)))
    results.write(place, found)
    assert results.read(place) == found and [one.name for one in place.parent.iterdir()] == [place.name]
    place.write_text('{"runs": []}')
    with pytest.raises(ValueError, match="not a results file"):
        results.read(place)


def test_the_table_shows_ratios_within_a_part_and_what_does_not_count() -> None:
    found = put_together(
        ("p1", "throughput", run("a", None)),
        ("p1", "throughput", run("b", 100_000.0)),
        ("p1", "throughput", run("spark", 50_000.0)),
        ("p2", "throughput", run("c", 123_456.0)),
    )
    head, _, names, rule, *lines = report.tables(found).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (names, *lines[:4])]
    assert head == "throughput" and set(rule) == {"|", "-", " "}
    assert cells[0] == ["job", "point", "peer", "rows/s", "p50 ms", "part", ""]
    assert cells[1] == ["event", "devices=1,000", "a", "", "", "A", "DOES NOT COUNT: 3 results are wrong"]
    assert cells[2][2:] == ["b", "100,000 (2.00x)", "8.25 (1.00x)", "A", ""]
    assert cells[3][2:] == ["spark", "50,000", "8.25", "A", ""]
    assert cells[4][2:] == ["c", "123,456", "8.25", "B", ""]
    assert lines[-2:] == ["A: p1, 2 cores, c0: x", "B: p2, 2 cores, c0: x"]


def test_only_points_that_lack_a_peer_are_taken_again(tmp_path: Path) -> None:
    place = tmp_path / "peers.json"
    asked = ["--only", "recovery", "--quick", "--missing", "--peers", "spark,flink"]
    (point,) = measures.points("recovery", measures.QUICK, None)
    wanted = partial(peers.wanted, parser().parse_args(asked), place)
    for peer, told_of, left in (("spark", "figures", 1), ("flink", "error", 1), ("flink", "figures", 0)):
        assert [one.of for _, one in wanted()][:1] == [point.of]
        told = {"job": point.job.name, "of": point.of, "peer": peer, told_of: {}}
        results.write(place, results.merged(results.read(place), "p", ABOUT, "recovery", told, ["recovery"]))
        assert len(list(wanted())) == left
    assert not list(peers.wanted(parser().parse_args([*asked[:3], "--minutes", "0"]), place))


@pytest.mark.parametrize(
    ("codes", "raised"),
    [
        ([ErrorCode.TIMEOUT] * 5, False),
        ([ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT], False),
        ([ErrorCode.UNAVAILABLE] * 2, True),
        ([ErrorCode.INVALID_VALUE], True),
    ],
)
def test_a_slow_start_is_waited_for_and_one_that_ended_is_made_once_more(
    codes: list[ErrorCode], raised: bool
) -> None:
    left = list(codes)

    def start() -> None:
        if left:
            raise MillraceError(left.pop(0), "not yet")

    with pytest.raises(MillraceError) if raised else nullcontext():
        until_ready(start)
    assert not left


def test_arrow_messages_have_the_same_rows() -> None:
    job = JOBS["session"]
    for each in (1, 30):
        for text in next(texts(job, 0, each, each)):
            rows = json.loads(text)
            assert pl.read_ipc_stream(arrow(text)).to_dicts() == (rows if each > 1 else [rows])


def test_what_others_take_of_the_machine_is_told(tmp_path: Path) -> None:
    def spin(seconds: float) -> psutil.Popen:
        text = f"import time\nend = time.time() + {seconds}\nwhile time.time() < end: pass"
        return psutil.Popen([sys.executable, "-c", text])

    own, other = spin(60), spin(60)
    try:
        with Watch([own]) as watch:
            time.sleep(0.6)  # it looks twice a second
    finally:
        for one in (own, other):
            one.kill()
            one.wait()
    figures = watch.figures(1_000_000, watch.seconds)
    assert 0 < figures["cores"] <= 1.1 and figures["others_cores"] > 0
    assert figures["cpu_seconds_per_million_rows"] == round(watch.cpu, 2) > 0
    assert figures["peak_memory_bytes"] > 1_000_000


def test_the_time_of_a_process_that_nobody_waited_for_counts() -> None:
    work = "import time\nwhile time.process_time() < 1.2: pass"
    parent = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", {work!r}])
time.sleep(60)
"""
    with psutil.Popen([sys.executable, "-c", parent]) as process, Watch([process]) as watch:
        while not process.children():
            time.sleep(0.05)
        while process.children():
            time.sleep(0.05)
        process.kill()
    assert 0.5 < watch.cpu < 4


@given(st.integers(1, 4), st.integers(1, 9), st.randoms(use_true_random=False))
def test_streams_are_told_apart_in_whatever_order_their_events_come(
    tables: int, streams: int, random: Any
) -> None:
    peer = Triggers()
    peer.tables = tables
    coming = random.sample(range(streams), streams)
    found = {peer.number(100 + one, device(one % tables, 7)): one % tables for one in coming}
    assert sorted(found) == list(range(streams))
    assert all(number % tables == table for number, table in found.items())
    assert {peer.number(100 + one, device(one % tables, 8)) for one in coming} == found.keys()


def test_of_several_turns_the_middle_of_each_figure_counts() -> None:
    def of(rows: float, **parts: float) -> dict[str, Any]:
        return {"job": "tumbling", "of": {"rows": 1}, "peer": "flink",
                "figures": {"rows_per_s": rows, "cpu_by_part": parts}}  # fmt: skip

    broken = {"job": "tumbling", "of": {"rows": 1}, "peer": "flink", "error": "it broke"}
    assert results.middle([broken, broken]) == broken
    assert results.middle([broken, of(5.0)]) == of(5.0)
    found = results.middle([of(3.0, java=1.0), broken, of(9.0, java=3.0, python=8.0), of(4.0, java=2.0)])
    assert found["figures"] == {"rows_per_s": 4.0, "cpu_by_part": {"java": 2.0, "python": 8.0}, "turns": 3}
    assert "error" not in found
