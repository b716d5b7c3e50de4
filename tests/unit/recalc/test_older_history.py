"""FILL_HISTORY of the older dialect: rows of history that are written again, or deleted, while it is read and
after that. Groups are of several tables, and a row may leave its group: which groups have rows from history
the slot of its table does not know."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...chaos.streams import By, Interval, Session, Stream
from ...conftest import examples
from .older import CHILDREN
from .test_older_matrix import MODES, Running

Steps = list[tuple[Any, ...]]


class Later(Running):
    """A stream that is made once there are rows."""

    made = False

    def define(self) -> None:
        if self.made:
            super().define()

    def do(self, steps: Steps, *, answered: bool) -> None:
        for *change, cut in steps:
            self.change(*change)
            if cut:
                self.run()
            if cut and answered:
                self.answer()


def driven(folder: Path, stream: Stream, before: Steps, during: Steps, after: Steps) -> Later:
    one = Later(folder, stream)
    one.do(before, answered=False)
    one.run()
    one.made = True
    one.define()
    one.run()
    one.do(during, answered=False)
    one.answer()
    one.do(after, answered=True)
    one.close()
    return one


def put(child: str, forward: int, v: int | None) -> tuple[Any, ...]:
    return "put", child, forward, v, 1, 0, True


LEAVES: dict[str, tuple[int | None, Steps, Steps, Steps]] = {
    "while history is read": (
        None, [put("c1", 1, 1), put("c1", 5, None)], [put("c1", 5, 60), put("c1", 1, 80)],
        [put("c1", -11, 80)],
    ),
    "once it is read": (
        None, [put("c2", 0, 60)], [], [put("c2", 0, None), put("c1", 5, 80)],
    ),
    "for none": (50, [put("c1", 8, 60)], [put("c1", 0, None)], []),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("window", [Interval(10, 10), Session(5)], ids=["interval", "session"])
@pytest.mark.parametrize("leaves", LEAVES)
def test_a_row_of_history_leaves_its_group(
    tmp_path: Path, leaves: str, window: Interval | Session, mode: str
) -> None:
    least, *steps = LEAVES[leaves]
    stream = Stream("x", window, by="half", older=mode, begins=0.5, least=least)
    one = driven(tmp_path, stream, *steps)
    assert one.results() == one.truth()


step = st.tuples(
    st.sampled_from(["put"] * 9 + ["delete"]), st.sampled_from(CHILDREN), st.integers(-12, 9),
    st.sampled_from([None, 1, 35, 60, 80]), st.sampled_from([1, 1, 2]), st.integers(0, 6), st.booleans(),
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("by", ["tbname", "", "half"])
@settings(max_examples=examples(8, cases=True), suppress_health_check=list(HealthCheck))
@given(
    parts=st.tuples(
        st.lists(step, min_size=1, max_size=6), st.lists(step, max_size=6), st.lists(step, max_size=5)
    ),
    window=st.sampled_from([Interval(10, 10), Interval(20, 10), Session(5)]),
    watermark=st.sampled_from([0, 0, 6]), least=st.sampled_from([None, None, 50]),
)  # fmt: skip
def test_history_and_live_rows_are_all_rows(
    mode: str, by: By, parts: Any, window: Interval | Session, watermark: int, least: int | None
) -> None:
    stream = Stream("x", window, by=by, older=mode, begins=0.5, watermark=watermark, least=least)
    with tempfile.TemporaryDirectory() as folder:
        one = driven(Path(folder), stream, *parts)
        assert one.results() == one.truth()
