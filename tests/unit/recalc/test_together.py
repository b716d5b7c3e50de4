"""Live triggers and recalculation together: whatever the order of arrival, the windows are those of the rows
in order; rows older than the stream are as if it had always been there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Duration
from millrace_core.wire import control
from millrace_core.wire.operations import Delete, Drop

from ...conftest import examples
from .conftest import ALL, CUT_AGAIN, TRIGGERS, make, same, same_but_empty, truth

steps = st.lists(
    st.tuples(
        st.integers(-25, 12), st.sampled_from([None, 1, 1, 2, 2, 3, 3, "delete"]), st.integers(0, 12),
        st.booleans(), st.booleans(),
    ),
    min_size=4, max_size=25,
)  # fmt: skip


REOPENED = [(0, 1), (9, 3), (-10, 3), (12, 1), (0, None), (-21, None)]
"""A window is closed; of the one before it the closing row closes it no more."""


@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(12))
@example(steps=[(*step, 0, False, False) for step in REOPENED], watermark=0)
@given(steps=steps, watermark=st.sampled_from([0, 0, 6]))
def test_any_order_of_rows_updates_and_deletes_ends_in_the_windows_of_the_rows_in_order(
    kit: Any, deployment: Any, name: str, steps: list[Any], watermark: int
) -> None:
    spec = make(kit, name, watermark, delete_recalc=True)
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        table = together.drive(steps)
        newest = together.close_all(table)
        same_but_empty(name, together.windows(), truth(spec, table, newest - watermark))


@pytest.mark.parametrize("name", ["interval", "session"])
@settings(max_examples=examples(10))
@given(steps=steps, watermark=st.sampled_from([0, 6, 15]))
def test_a_group_of_two_tables_ends_in_the_windows_of_their_rows_in_order(
    kit: Any, deployment: Any, name: str, steps: list[Any], watermark: int
) -> None:
    """Rows of c1 lie at even times, those of c2 at odd ones; deletes reach rows that wait for T as well."""
    spec = msgspec.structs.replace(make(kit, name, watermark, delete_recalc=True), partition=())
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec, ("c1", "c2"))
        together.define()
        table: dict[int, Any] = {}
        newest = 0
        ends = [(40, 1, 0, True, True), (90, 1, 0, True, True)]
        for forward, value, length, cut, answered in [(1, 1, 0, True, True), *steps, *ends]:
            ts = max(0, newest + forward)
            child = f"c{1 + ts % 2}"
            if value == "delete":
                together.cluster.operate(child, Delete(ts, ts + length), together.table)
                gone = {t for t in table if ts <= t <= ts + length and t % 2 == ts % 2}
                table = {t: v for t, v in table.items() if t not in gone}
            else:
                together.write(child, [{"ts": ts, "v": value}])
                table[ts] = value
                newest = max(newest, ts)
            if cut:
                together.run()
            if cut and answered:
                together.answer()
        together.answer()
        same_but_empty(name, together.windows(), truth(spec, table, newest - watermark))


def test_a_row_that_is_deleted_while_it_waits_for_the_watermark_joins_nothing(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = msgspec.structs.replace(make(kit, "session", 10, delete_recalc=True), partition=())
    together = deployment(tmp_path, spec, ("c1", "c2"))
    together.define()
    together.write("c1", [1])
    together.write("c2", [5])
    together.write("c1", [9])
    together.run()
    together.cluster.operate("c2", Delete(0, 9), together.table)
    together.run()
    together.write("c1", [100])
    together.run()
    together.answer()
    assert {start: end for start, (end, _) in together.windows().items()} == {1: 1, 9: 9}


QUIET: dict[str, dict[str, Any]] = {
    "expired": {"expired_time": Duration(30, "a"), "delete_recalc": True},
    "disorder": {"ignore_disorder": True},
    "delete": {},
}
quiet_steps = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from([None, 1, 2, 3]), st.integers(0, 9), st.integers(0, 12)),
    min_size=2, max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("option", QUIET)
@pytest.mark.parametrize("name", [name for name in CUT_AGAIN if name not in ("state1", "event2")])
@settings(max_examples=examples(5))
@given(steps=quiet_steps, watermark=st.sampled_from([0, 6]))
def test_what_is_expired_or_ignored_tells_nothing_and_changes_nothing(
    kit: Any, deployment: Any, name: str, option: str, steps: list[Any], watermark: int
) -> None:
    """After each row in order comes one that is too late, or a delete that nobody asked to heed."""
    spec = make(kit, name, watermark, **QUIET[option])
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        together.define()
        table = {0: 1, 10: 2}
        together.write("c1", [[0, 1], [10, 2]])
        for forward, value, back, length in [*steps, (40, 9, 0, 0), (1, 8, 0, 0), (60, 7, 0, 0)]:
            newest = max(table) + forward
            table[newest] = value
            together.write("c1", [[newest, value]])
            together.run()
            told = len(together.events)
            late = newest - (30 if option == "expired" else watermark) - back - (option == "expired")
            if option == "delete" or (option == "expired" and length > 6):
                together.cluster.operate("c1", Delete(late - length, late), together.table)
            else:
                together.write("c1", [[late, 3 - (value or 0) % 3]])
            together.run()
            assert (len(together.events), together.requests) == (told, [])
        same(together.windows(), truth(spec, table, max(table) - watermark))


rows_of_time = st.dictionaries(st.integers(0, 80), st.sampled_from([None, 1, 1, 2, 3]), max_size=20)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", list(TRIGGERS))
@settings(max_examples=examples(6))
@given(
    old=rows_of_time, live=rows_of_time, early=st.integers(0, 20), begin=st.sampled_from([ALL, 20]),
    watermark=st.sampled_from([0, 6]),
)  # fmt: skip
def test_history_joins_the_live_rows(
    kit: Any, deployment: Any, name: str, first: bool, old: dict[int, Any], live: dict[int, Any], early: int,
    begin: int, watermark: int,
) -> None:  # fmt: skip
    """``early``: live rows that come before the history has been read."""
    spec = make(kit, name, watermark, **{"fill_history_first" if first else "fill_history": begin})
    later = {ts + 100: v for ts, v in live.items()} | {200: 1, 201: 2, 240: 9, 300: 1}
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        for ts, value in old.items():  # in any order
            together.write("c1", [{"ts": ts, "v": value}])
        together.run()
        together.define()
        for place, ts in enumerate(sorted(later)):
            together.write("c1", [{"ts": ts, "v": later[ts]}])
            together.run()
            if place == early:
                assert not together.events or not old
                together.answer()
        together.answer()
        table = {ts: v for ts, v in old.items() if ts >= begin} | later
        same(together.windows(), truth(spec, table, 300 - watermark))


@pytest.mark.parametrize("name", list(TRIGGERS))
@settings(max_examples=examples(5))
@given(before=rows_of_time, missed=rows_of_time, live=rows_of_time, untreated=st.booleans())
def test_a_stop_is_a_pause(
    kit: Any, deployment: Any, name: str, before: dict[int, Any], missed: dict[int, Any],
    live: dict[int, Any], untreated: bool,
) -> None:  # fmt: skip
    spec = make(kit, name, fill_history=ALL)
    parts = [{ts + shift: v for ts, v in part.items()}
             for shift, part in ((0, before), (100, missed), (200, live | {90: 9, 95: 1}))]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        together.define()
        for number, part in enumerate(parts):
            if number == 1:
                together.cluster.control(control.StopStream(spec.uid))
                together.run()
            if number == 2:
                live_from = {0: together.cluster.ends.get(together.topic, 0)}
                start = control.StartStream(spec.uid, live_from, 1, untreated=untreated)
                together.cluster.control(start)
                together.run()
            for ts in sorted(part):
                together.write("c1", [{"ts": ts, "v": part[ts]}])
            together.run()
            together.answer()
        table = parts[0] | (parts[1] if untreated else {}) | parts[2]
        same(together.windows(), truth(spec, table, 295))


@pytest.mark.parametrize("untreated", [True, False])
def test_what_was_written_during_a_stop_does_not_expire(
    kit: Any, deployment: Any, tmp_path: Path, untreated: bool
) -> None:
    """Seed 000: only live rows expire; these are history."""
    spec = make(kit, "session", fill_history=ALL, expired_time=Duration(30, "a"))
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [100, 200])
    together.write("c1", [110])
    together.run()
    together.answer()
    together.cluster.control(control.StopStream(spec.uid))
    together.run()
    together.write("c1", [205])
    together.write("c1", [120])
    live_from = {0: together.cluster.ends[together.topic]}
    together.cluster.control(control.StartStream(spec.uid, live_from, 1, untreated=untreated))
    together.run()
    together.answer()
    together.write("c1", [300])
    together.write("c1", [130])
    together.run()
    together.answer()
    seen = {100: (100, 1), 200: (205, 2), 120: (120, 1)} if untreated else {100: (100, 1), 200: (200, 1)}
    same(together.windows(), seen)
    assert together.cluster.totals()["expired"] == 2


def test_what_came_before_is_history(kit: Any, deployment: Any, tmp_path: Path) -> None:
    spec = make(kit, "count", fill_history_first=ALL)
    together = deployment(tmp_path, spec)
    together.write("c1", [1, 2, 3, 4])
    together.run()
    together.define()
    together.run()
    together.answer()
    together.write("c1", [5, 6])
    together.run()
    told = [(event.kind, event.start, event.cause) for event in together.events]
    assert told == [
        ("OPEN", 1, "HISTORY"), ("CLOSE", 1, "HISTORY"), ("OPEN", 4, "HISTORY"), ("CLOSE", 4, "LIVE"),
    ]  # fmt: skip


def test_by_hand_count_windows_need_both_ends_behind_the_progress(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = make(kit, "count")
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", list(range(1, 11)))
    together.run()
    before = len(together.events)
    for last in (None, 11):
        together.cluster.control(control.RecalculateStream(spec.uid, 0, last))
        together.run()
        together.answer()
    assert len(together.events) == before
    together.cluster.control(control.RecalculateStream(spec.uid, 0, 6))
    together.run()
    together.answer()
    again = [(event.kind, event.start, event.end, event.cause) for event in together.events[before:]]
    assert again == [
        ("OPEN", 1, 1, "RECALC"), ("CLOSE", 1, 3, "RECALC"),
        ("OPEN", 4, 4, "RECALC"), ("CLOSE", 4, 6, "RECALC"),
    ]  # fmt: skip


def test_by_hand_reads_what_is_older_than_the_stream(kit: Any, deployment: Any, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(make(kit, "session"), notify=None)
    together = deployment(tmp_path, spec, ("c1", "c2"))
    together.write("c1", [1, 3, 20])
    together.write("c2", [2, 30])
    together.run()
    together.define()
    together.write("c1", [40, 50])
    together.run()
    together.cluster.control(control.RecalculateStream(spec.uid, 0, None))
    together.run()
    together.answer()
    closed = {(e.group.table, e.start, e.end, e.cause) for e in together.events if e.kind == "CLOSE"}
    assert closed == {
        ("c1", 40, 40, "LIVE"), ("c1", 1, 3, "RECALC"), ("c1", 20, 20, "RECALC"), ("c1", 40, 40, "RECALC"),
        ("c2", 2, 2, "RECALC"),
    }  # fmt: skip


def test_a_child_that_is_dropped_takes_its_rows_out_of_the_common_group(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = make(kit, "session", delete_recalc=True)
    spec = msgspec.structs.replace(spec, partition=())
    together = deployment(tmp_path, spec, ("c1", "c2"))
    together.define()
    together.write("c2", [1, 4])
    together.run()
    together.write("c1", [8, 30])
    together.run()
    assert together.windows() == {1: (8, 3)}
    together.cluster.operate("c2", Drop(), together.table)
    together.run()
    together.answer()
    assert together.windows() == {8: (8, 1)}


def test_a_late_row_that_joins_two_sessions_makes_the_second_invalid(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    together = deployment(tmp_path, make(kit, "session"))
    together.define()
    together.write("c1", [1, 3, 10, 12, 30])
    together.run()
    before = len(together.events)
    together.write("c1", [7])
    together.run()
    together.answer()
    told = [(event.kind, event.start, event.end) for event in together.events[before:]]
    assert told == [("INVALID", 10, 12), ("OPEN", 1, 1), ("CLOSE", 1, 12)]


def test_expired_rows_ask_for_nothing(kit: Any, deployment: Any, tmp_path: Path) -> None:
    spec = make(kit, "state", expired_time=Duration(30, "a"), delete_recalc=True)
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [[0, 1], [5, 2], [60, 3]])
    together.run()
    together.write("c1", [[3, 9]])
    together.cluster.operate("c1", Delete(0, 20), together.table)
    together.run()
    assert not together.requests
