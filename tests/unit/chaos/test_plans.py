"""Schedules and rows of chaos runs: a seed gives the same ones, and they have what they are there for."""

from __future__ import annotations

import json

import pytest

from millrace_core.wire.operations import Delete, Drop, encode_operation
from millrace_wal import Record

from ...chaos import schedule, workload
from ...chaos.__main__ import seeds, table
from ...chaos.changes import FIRST, LAST, ROWS_A_MESSAGE, Change, changes
from ...chaos.load import statements, value_of
from ...chaos.plan import STREAMS
from ...chaos.round import Outcome, not_in_the_log, places
from ...chaos.schedule import VICTIMS, Disturbance
from ...chaos.workload import BASE, Step

SEEDS = range(1, 21)


def test_a_seed_gives_the_same_schedule_and_the_same_rows() -> None:
    for seed in SEEDS:
        assert schedule.plan(seed, 60) == schedule.plan(seed, 60) != schedule.plan(seed + 1, 60)
    assert workload.steps(3, 20) == workload.steps(3, 20) != workload.steps(4, 20)


def test_every_part_is_killed_and_paused_the_broker_included() -> None:
    hit = {(one.kind, one.victim) for seed in SEEDS for one in schedule.plan(seed, 120)}
    assert hit == {(kind, victim) for kind in ("kill", "pause") for victim in VICTIMS}


def test_a_schedule_keeps_its_order_and_its_bounds_and_spares_what_it_must() -> None:
    for seed in SEEDS:
        plan = schedule.plan(seed, 120)
        assert len(plan) >= 5
        assert plan == sorted(plan, key=lambda one: one.at)
        assert all(schedule.CALM <= one.at < 120 and 0 <= one.seconds <= max(schedule.PAUSES) for one in plan)
        spared = schedule.plan(seed, 120, ("broker", "calc-svc/jvm"))
        assert spared == [one for one in plan if one.part != "broker" and one.victim != "calc-svc/jvm"]


def test_a_schedule_can_be_read() -> None:
    plan = [Disturbance(4.5, "kill", "broker"), Disturbance(12.25, "pause", "calc-svc/jvm", 3.5)]
    assert schedule.lines(plan) == [
        "   4.50 s  kill   broker", "  12.25 s  pause  calc-svc/jvm for 3.5 s",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_come_in_order_late_rewritten_in_part_and_are_deleted(seed: int) -> None:
    steps = workload.steps(seed, 60)
    meters = [one for one in steps if one.table == "meters"]
    newest: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    found = dict.fromkeys(("late", "rewritten", "in part", "before all", "deleted"), 0)
    for one in meters:
        found["deleted"] += one.what == "delete"
        for row in one.rows:
            found["late"] += row["ts"] < newest.get(one.child, 0)
            found["rewritten"] += (one.child, row["ts"]) in seen
            found["in part"] += len(row) < 4
            found["before all"] += row["ts"] < BASE
            seen.add((one.child, row["ts"]))
            newest[one.child] = max(newest.get(one.child, 0), row["ts"])
    assert all(count > 3 for what, count in found.items() if what != "before all"), found
    assert {one.what for one in meters} == {"produce", "insert", "delete"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ticks_come_in_order_and_once(seed: int) -> None:
    steps = workload.steps(seed, 30)
    for child in workload.TICKS:
        own = [one for one in [*steps, *workload.closing(seed, steps)] if one.child == child]
        times = [row["ts"] for one in own for row in one.rows]
        assert times == sorted(set(times))
        assert {one.what for one in own} == {"produce"}


def test_versions_have_numbers_of_their_own_and_a_born_child_brings_its_tags() -> None:
    steps = workload.steps(5, 30)
    ops = [row["op"] for one in [*steps, *workload.closing(5, steps)] for row in one.rows]
    assert len(ops) == len(set(ops))
    (born,) = [one for one in steps if one.tags is not None]
    assert born == next(one for one in steps if one.child == "n0")
    assert json.loads(value_of(born)) == {"tags": {"site": 1}, "rows": list(born.rows)}


def test_streams_are_recalculated_by_hand_of_those_that_are_there_from_the_start() -> None:
    asked = [one.table for seed in SEEDS for one in workload.steps(seed, 60) if one.what == "recalculate"]
    assert set(asked) == set(workload.RECALCULATED)
    assert set(asked) <= {stream.name for stream in STREAMS if not stream.begins and not stream.nested}


def test_the_last_rows_lie_behind_all_others() -> None:
    steps = workload.steps(5, 30)
    newest = max(row["ts"] for one in steps for row in one.rows)
    last = workload.closing(5, steps)
    assert {one.child for one in last} == {one.child for one in steps if one.child}
    assert all(row["ts"] > newest + 60_000 for one in last for row in one.rows)


def test_steps_in_sql() -> None:
    whole = ({"ts": 1, "op": 2, "v": 3, "s": None}, {"ts": 7, "op": 8, "v": 9, "s": 0})
    rows = (whole[0], {"ts": 4, "op": 5, "s": 6}, whole[1])
    assert statements(Step(0, "insert", "meters", "m0", rows), "d") == [
        "INSERT INTO d.m0 (ts, op, v, s) VALUES (1, 2, 3, NULL) (7, 8, 9, 0)",
        "INSERT INTO d.m0 (ts, op, s) VALUES (4, 5, 6)",
    ]
    assert statements(Step(0, "recalculate", "by_gap", "", (), 1, 5), "d") == [
        "RECALCULATE STREAM d.by_gap FROM 1 TO 5"
    ]
    assert statements(Step(0, "delete", "meters", "m0", (), 1, 5), "d") == [
        "DELETE FROM d.m0 WHERE ts >= 1 AND ts <= 5"
    ]


def record(offset: int, key: bytes | None, value: bytes, partition: int = 0) -> Record:
    return Record("wal.d.t", partition, offset, 0, key, value)


def test_the_log_is_read_as_rows_and_deletes_in_order() -> None:
    records = [
        record(7, b"b", b'{"tags": {"site": 1}, "rows": [{"ts": 3, "v": 1}]}', 1),
        record(2, b"a", encode_operation(Delete(1, 2))),
        record(1, b"a", b'[{"ts": 1, "v": 1}, {"ts": 2, "v": null}]'),
        record(3, None, encode_operation(Drop())),
    ]
    one = ROWS_A_MESSAGE
    assert changes(records, "t") == [
        Change("a", one, 1, 1, {"v": 1}), Change("a", one + 1, 2, 2, {"v": None}),
        Change("a", 2 * one, 1, 2, None), Change("t", 3 * one, FIRST, LAST, None),
        Change("b", 7 * one, 3, 3, {"v": 1}, 1),
    ]  # fmt: skip
    assert places({0: 5}, changes(records, "t")) == {"a": 5 * one, "t": 5 * one, "b": 0}


def test_what_was_acknowledged_and_is_not_in_the_log_is_found() -> None:
    step = Step(0, "insert", "meters", "a", ({"ts": 1, "op": 7, "v": 1},))
    gone = Step(0, "delete", "meters", "a", (), 1, 5)
    log = [Change("a", 0, 1, 1, {"op": 7, "v": 1}), Change("a", 1, 1, 5, None)]
    assert not_in_the_log([step, gone], log) == []
    assert len(not_in_the_log([step, gone], log[:1])) == 1
    assert len(not_in_the_log([step, gone], log[1:])) == 1


def test_seeds_as_they_are_named() -> None:
    assert seeds("1..3,9") == [1, 2, 3, 9]
    for wrong in ("a", "1..", "1..2..3", ""):
        with pytest.raises(Exception, match="is not a seed"):
            seeds(wrong)


def test_the_table_has_a_line_for_each_seed_and_sums() -> None:
    right = Outcome(1, 2, 3, 1, 100, 10, 10, recovery=1.5)
    failed = Outcome(2, 2, 4, 1, 100, 10, 8, wrong=1, missing=1)
    assert right.is_right and not failed.is_right
    lines = table([right.as_json(), failed.as_json()])
    assert [line.split()[0] for line in lines] == ["seed", "1", "2", "all"]
    assert lines[3].split() == ["all", "7", "2", "200", "20", "18", "1", "1", "0", "0"]
