"""Streams of the older dialect, from their statements to their result tables: after any order of rows,
rewritten rows, deletes and pauses a table holds what DuckDB gives for the rows as they are then, and nothing
else. For every kind of window, trigger mode and kind of groups."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...chaos.changes import Change
from ...chaos.oracle import Oracle, Result
from ...chaos.streams import By, Count, Event, EveryRow, Interval, Session, State, Stream, Trigger, statement
from ...conftest import examples, thorough, tried
from .older import CHILDREN, Older


class Running(Older):
    """A stream over its rows, of which every change is known."""

    def __init__(self, folder: Path, stream: Stream) -> None:
        super().__init__(folder, statement(stream, "d", ""))
        self.stream = stream
        self.changes: list[Change] = []
        self.paused = False

    def put(self, ts: int, v: int | None = 1, s: int | None = None, child: str = "c1") -> dict[str, Any]:
        row = super().put(ts, v, s, child)
        self.note(child, ts, row)
        return row

    def note(self, child: str, ts: int, row: dict[str, Any]) -> None:
        """This row was written."""
        self.changes.append(Change(child, len(self.changes), ts, ts, row))

    def remove(self, first: int, last: int, child: str = "c1") -> None:
        super().remove(first, last, child)
        self.changes.append(Change(child, len(self.changes), first, last, None))

    def change(self, what: str, child: str, forward: int, v: int | None, s: int | None, length: int) -> None:
        """``what``: "put" or "delete", ``forward`` behind the newest row (or before it)."""
        ts = max(0, self.newest + forward)
        if what == "put":
            self.put(ts, v, s, child)
        else:
            self.remove(ts, ts + length, child)

    def pause_or_resume(self) -> None:
        self.paused = not self.paused
        if self.paused:
            self.pause()
        else:
            self.resume()

    def close(self) -> None:
        """Write rows far behind all others, in each table; let the clock go on; answer what is asked."""
        if self.paused:
            self.pause_or_resume()
        begin = self.newest
        for ts, v, s in ((200, 0, 901), (400, 50, 902), (401, 51, 903)):
            for child in CHILDREN:
                self.put(begin + ts, v, s, child)
        for _ in range(3):
            self.settle()
            self.cluster.tick(self.cluster.now + 6_000)
        self.settle()

    def results(self) -> set[Result]:
        view = self.out.view()
        data, child = view.slices.within(-(1 << 62), 1 << 62)
        groups = view.described["grp"][child].to_list() if self.stream.by else [""] * len(data)
        rows = data.select("ts", "upto", "n", "total").rows()
        return {Result(group or "", *row) for group, row in zip(groups, rows, strict=True)}

    def truth(self) -> set[Result]:
        return set(Oracle(self.changes, lambda _: 1).expected(self.stream))


WINDOWS: dict[str, Trigger] = {
    "interval": Interval(10, 10), "overlapping": Interval(20, 10), "session": Session(5), "state": State(),
    "event": Event(70, 30), "rows": EveryRow(), "offset": Interval(10, 10, 3),
}  # fmt: skip
MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY 5s", "CONTINUOUS_WINDOW_CLOSE RECALCULATE 2s")
GROUPS: tuple[By, ...] = ("tbname", "", "half")


def possible(window: str, mode: str, by: By) -> bool:
    """Whether the dialect has it (SEMANTICS-FRONTENDS, S2)."""
    if window == "rows":
        return mode == "AT_ONCE" and by == "tbname"
    if mode.startswith("CONTINUOUS") and not isinstance(WINDOWS[window], Interval):
        return False
    return by == "tbname" or window in ("interval", "overlapping", "session", "offset")


CASES = [
    (window, mode, by) for window in WINDOWS for mode in MODES for by in GROUPS if possible(window, mode, by)
]
MATRIX = [
    pytest.param(window, mode, by, id=f"{window}-{mode.split()[0]}-{by or 'all'}")
    for window, mode, by in tried(CASES)
]


step = st.tuples(
    st.sampled_from(["put"] * 8 + ["delete", "pause"]), st.sampled_from(CHILDREN), st.integers(-25, 9),
    st.sampled_from([None, 0, 10, 35, 75, 80]), st.sampled_from([None, 1, 1, 2]), st.integers(0, 12),
    st.booleans(), st.booleans(),
)  # fmt: skip


def driven(folder: Path, stream: Stream, steps: list[Any]) -> Running:
    one = Running(folder, stream)
    for what, child, forward, v, s, length, cut, answered in steps:
        if what == "pause":
            one.pause_or_resume()
            cut = True
        else:
            one.change(what, child, forward, v, s, length)
        if cut:
            one.run()
        if cut and answered:
            one.answer()
    one.close()
    return one


@pytest.mark.parametrize(("window", "mode", "by"), MATRIX)
@settings(max_examples=examples(4, cases=True), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=1, max_size=18), watermark=st.sampled_from([0, 0, 6]))
def test_the_result_table_is_that_of_the_rows(
    window: str, mode: str, by: By, steps: list[Any], watermark: int
) -> None:
    watermark = 0 if window == "rows" else watermark
    stream = Stream("x", WINDOWS[window], by=by, older=mode, watermark=watermark)
    with tempfile.TemporaryDirectory() as folder:
        one = driven(Path(folder), stream, steps)
        assert one.results() == one.truth()


ahead = st.tuples(
    st.sampled_from(["put"] * 6 + ["delete"]), st.sampled_from(CHILDREN), st.integers(-25, 9),
    st.sampled_from([None, 0, 10, 35, 75, 80]), st.sampled_from([None, 1, 1, 2]), st.integers(0, 12),
    st.sampled_from(["", "read", "run", "run"]), st.sampled_from([0, 0, 0, 1, 2, 3]),
)  # fmt: skip


@pytest.mark.parametrize(("window", "mode", "by"), MATRIX)
@settings(max_examples=examples(4, cases=True), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(ahead, min_size=1, max_size=18), watermark=st.sampled_from([0, 0, 6]))
def test_an_answer_may_come_late_and_know_more_rows_than_the_slots(
    window: str, mode: str, by: By, steps: list[Any], watermark: int
) -> None:
    watermark = 0 if window == "rows" else watermark
    stream = Stream("x", WINDOWS[window], by=by, older=mode, watermark=watermark)
    with tempfile.TemporaryDirectory() as folder:
        one = Running(Path(folder), stream)
        for *change, then, answered in steps:
            one.change(*change)
            if then == "run":
                one.run()
            elif then:
                one.read()
            one.answer_oldest(answered)
        one.close()
        assert one.results() == one.truth()


def test_answers_given_together_leave_what_was_told_since(tmp_path: Path) -> None:
    """Chaos, seed 17: the first request says that nobody knows which windows are open, the last one does no
    more; by then what is live tells of the one that opened."""
    one = Running(tmp_path, Stream("x", State(), by="tbname", older="WINDOW_CLOSE"))
    for ts, s in ((1, 1), (5, 2), (9, 2), (12, 1)):
        one.put(ts, 10, s)
        one.run()
    one.remove(12, 12)
    one.run()
    for ts, s in ((15, 2), (20, 1), (25, 1), (30, 2)):
        one.put(ts, 10, s)
        one.run()
    assert [[part.lost for part in request.parts] for request in one.requests] == [[True], [True], [False]]
    one.answer_oldest(3)
    one.close()
    assert one.results() == one.truth()


def put(v: int | None, forward: int = 0, *, cut: bool = True) -> tuple[Any, ...]:
    return "put", "c1", forward, v, 1, 0, cut, False


PAUSE: tuple[Any, ...] = ("pause", "c1", 0, None, None, 0, False, False)
ANSWERED = (*PAUSE[:-1], True)
LEAVES = {
    "while it is paused": [put(70), PAUSE, put(0)],
    "in the batch of the pause": [put(70), put(0, cut=False), PAUSE],
    "in the batch of the resume": [put(70), PAUSE, put(0, cut=False), PAUSE],
    "and comes back": [put(70), PAUSE, put(0), put(70)],
    "far behind": [put(70), put(0, 100), PAUSE, put(0, -100)],
    "that the pause wrote": [put(0), PAUSE, put(70, 5), ANSWERED, put(0)],
}


WATERMARKS = (0, 6)
ODD = (("overlapping", "AT_ONCE"), ("session", "WINDOW_CLOSE"))
"""With one watermark for these and the other for the rest, each has met every window and every mode."""


LEFT = tried(list(product(LEAVES, GROUPS, ("overlapping", "session"), MODES[:2])))


@pytest.mark.parametrize(("leaves", "by", "window", "mode"), LEFT)
def test_a_row_leaves_its_group_during_a_pause(leaves: str, by: By, window: str, mode: str) -> None:
    """It is written again with what puts it into another group, or with what WHERE leaves out."""
    for least in (None, 50) if by == "half" else (50,):
        for watermark in WATERMARKS if thorough() else (WATERMARKS[(window, mode) in ODD],):
            stream = Stream("x", WINDOWS[window], by=by, older=mode, watermark=watermark, least=least)
            with tempfile.TemporaryDirectory() as folder:
                one = driven(Path(folder), stream, LEAVES[leaves])
                assert one.results() == one.truth()


@pytest.mark.parametrize("window", ["overlapping", "session"])
def test_a_row_leaves_a_group_that_gets_no_other(window: str, tmp_path: Path) -> None:
    stream = Stream("x", WINDOWS[window], by="half", older="AT_ONCE")
    one = driven(tmp_path, stream, [put(None), put(0, cut=False), PAUSE])
    assert one.results() == one.truth()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by", GROUPS)
@settings(max_examples=examples(4, cases=True), suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(step, min_size=1, max_size=18),
    window=st.sampled_from([Interval(10, 10), Interval(20, 10), Interval(30, 10), Interval(10, 10, 3)]),
)
def test_windows_without_rows_are_filled(mode: str, by: By, steps: list[Any], window: Interval) -> None:
    stream = Stream("x", window, by=by, older=mode, fill=-1)
    steps = [(*one[:3], one[3] or 1, *one[4:]) for one in steps]
    with tempfile.TemporaryDirectory() as folder:
        one = driven(Path(folder), stream, steps)
        assert one.results() == one.truth()


def counted(rows: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """Rows so far behind or before the newest one, and deletes of any."""
    values = st.sampled_from([None, 10, 75])
    put = st.tuples(
        st.just("put"), st.sampled_from(CHILDREN), rows, values, st.just(1), st.just(0), st.booleans(),
        st.booleans(),
    )  # fmt: skip
    delete = st.tuples(
        st.just("delete"), st.sampled_from(CHILDREN), st.integers(-25, 0), values, st.just(1),
        st.integers(0, 12), st.booleans(), st.booleans(),
    )  # fmt: skip
    return st.lists(st.one_of(put, put, put, delete), min_size=1, max_size=18)


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("trigger", [Count(3, 3), Count(4, 2), Count(3, 1)])
@settings(max_examples=examples(6, cases=True), suppress_health_check=list(HealthCheck))
@given(data=st.data(), watermark=st.sampled_from([1, 6, 40]), least=st.sampled_from([None, 50]))
def test_windows_of_so_many_rows(
    mode: str, trigger: Count, data: st.DataObject, watermark: int, least: int | None
) -> None:
    """They take no late rows: what comes in no order comes within the watermark."""
    rows = st.integers(-9, 9) if watermark == 40 else st.integers(1, 9)
    least = least if watermark == 40 else None
    steps = data.draw(counted(rows))
    stream = Stream("x", trigger, older=mode, watermark=watermark, least=least)
    with tempfile.TemporaryDirectory() as folder:
        one = driven(Path(folder), stream, steps)
        assert one.results() == one.truth()
