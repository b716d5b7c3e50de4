"""Rows that name some columns only, of streams whose groups others make: the result table is that of the rows
as they are stored, whichever group they are of, and whether anybody has seen that group before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.trigger.slot.slot import Slot

from ...chaos.streams import By, Interval, Session, Stream, Trigger
from ...conftest import examples
from .older import CHILDREN
from .test_older_matrix import Running

WINDOWS: dict[str, Trigger] = {"interval": Interval(10, 10), "session": Session(5)}
MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY 5s")
UNNAMED = "unnamed"


class Named(Running):
    """Rows of which v may be ``UNNAMED``."""

    def put(self, ts: int, v: Any = 1, s: int | None = None, child: str = "c1") -> dict[str, Any]:
        if v != UNNAMED:
            return super().put(ts, v, s, child)
        row = {"op": self.places, "s": s}
        self.write(child, [{"ts": ts, **row}])
        self.places += 1
        self.newest = max(self.newest, ts)
        self.note(child, ts, row)
        return row

    def close(self) -> None:
        """T of the rows without a value moves on, too."""
        if self.paused:
            self.pause_or_resume()
        begin = self.newest
        for child in CHILDREN:
            for far in (300, 450):
                self.put(begin + far, None, 904, child)
        super().close()


def made(folder: Path, window: str, mode: str, by: By = "half", watermark: int = 0) -> Named:
    return Named(folder, Stream("x", WINDOWS[window], by=by, older=mode, watermark=watermark))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_row_of_a_group_that_nobody_has_seen(tmp_path: Path, window: str, mode: str) -> None:
    """Chaos, seed 16: there was a row, it was deleted; then a part of it came."""
    one = made(tmp_path, window, mode)
    for ts, v in ((1, 10), (4, 70), (30, 10), (31, 70)):
        one.put(ts, v)
    one.settle()
    one.remove(4, 4)
    one.settle()
    one.put(4, UNNAMED, 2)
    one.settle()
    if mode == "AT_ONCE":
        assert one.results() == one.truth()
    one.close()
    assert one.results() == one.truth()
    assert any(group == "" and start < 10 for group, start, *_ in one.results())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("then", ["whole", "deleted", "part"])
def test_what_comes_at_its_time_before_the_answer_goes_instead(tmp_path: Path, mode: str, then: str) -> None:
    one = made(tmp_path, "interval", mode)
    for ts, v in ((1, 10), (4, 70), (30, 10)):
        one.put(ts, v)
    one.settle()
    one.put(4, UNNAMED, 2)
    one.run()
    if then == "deleted":
        one.remove(3, 5)
    else:
        one.put(4, 10 if then == "whole" else UNNAMED, 3)
    one.close()
    assert one.results() == one.truth()


def test_nothing_is_kept_of_what_was_answered(tmp_path: Path) -> None:
    one = made(tmp_path, "interval", "WINDOW_CLOSE")
    one.put(30, 10)
    for ts in range(10):
        one.put(ts, UNNAMED, 2)
    one.settle()
    slots = [Slot.restore(blob) for blob in one.cluster.blobs.values()]
    lives = [stream.life for slot in slots for stream in slot.contents.streams.values()]
    assert lives and not any(life.partial or life.unknown for life in lives)


def test_what_was_asked_before_a_stop_is_asked_again_after_it(tmp_path: Path) -> None:
    one = made(tmp_path, "interval", "AT_ONCE")
    one.put(1, 70)
    one.put(30, 10)
    one.settle()
    one.put(4, UNNAMED, 2)
    one.run()
    one.pause_or_resume()
    one.settle()
    assert one.results() != one.truth()
    one.pause_or_resume()
    one.settle()
    assert one.results() == one.truth()


step = st.tuples(
    st.sampled_from(["put"] * 8 + ["delete", "pause"]), st.sampled_from(CHILDREN), st.integers(-25, 9),
    st.sampled_from([None, 0, 10, 75, UNNAMED, UNNAMED]), st.sampled_from([None, 1, 2]), st.integers(0, 12),
    st.booleans(), st.sampled_from([0, 0, 1, 2, 5]),
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=examples(6, cases=True), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=1, max_size=18), watermark=st.sampled_from([0, 0, 6]))
def test_the_result_table_is_that_of_the_rows(
    window: str, mode: str, steps: list[Any], watermark: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), window, mode, watermark=watermark)
        for what, child, forward, v, s, length, cut, answered in steps:
            if what == "pause":
                one.pause_or_resume()
                cut = True
            else:
                one.change(what, child, forward, v, s, length)
            if cut:
                one.run()
                one.answer_oldest(answered)
        one.close()
        assert one.results() == one.truth()
