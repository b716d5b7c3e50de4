"""What RECALCULATE STREAM says of a range that the stream has not come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.recalc.sending import Work
from millrace_core.wire import control

from .conftest import make


class ByHand:
    """A stream over two tables; ``c1`` has come to 19, ``c2`` to 4."""

    def __init__(self, kit: Any, deployment: Any, folder: Path, trigger: str) -> None:
        spec = msgspec.structs.replace(make(kit, trigger), notify=None)
        self.together = deployment(folder, spec, ("c1", "c2", "c3"))
        self.together.define()

    def write(self) -> None:
        self.together.write("c1", list(range(20)))
        self.together.write("c2", list(range(5)))
        self.together.run()

    def recalculate(self, first: int, last: int | None) -> tuple[str, str, int]:
        """State, message, and how many events it gives."""
        together = self.together
        together.cluster.control(control.RecalculateStream(together.spec.uid, first, last))
        together.run()
        requests, together.requests = together.requests, []
        work = Work()
        list(together.answers.answer(requests, (0, 1), work))
        return *work.by_hand.outcome(together.spec), work.events


@pytest.fixture
def by_hand(kit: Any, deployment: Any, tmp_path: Path) -> Any:
    return lambda trigger: ByHand(kit, deployment, tmp_path, trigger)


def at(tick: int) -> str:
    return f"up to 1970-01-01T00:00:00.{tick:03}Z"


@pytest.mark.parametrize("trigger", ["interval", "session", "sliding", "count"])
def test_a_range_that_the_stream_has_not_come_to_is_ignored_and_says_so(by_hand: Any, trigger: str) -> None:
    stream = by_hand(trigger)
    nothing = ("Ignored", "ignored: the stream has no rows in this range yet", 0)
    assert stream.recalculate(0, 10) == nothing
    stream.write()
    state, message, events = stream.recalculate(100, 200)
    assert (state, events) == ("Ignored", 0)
    if trigger == "count":
        assert message == (
            "ignored: COUNT_WINDOW can be recalculated only as far as it has been calculated "
            f"({at(19)}), but the range ends after that"
        )
    else:
        assert message == f"ignored: the range begins after what has been calculated ({at(19)})"


@pytest.mark.parametrize("trigger", ["interval", "session", "sliding"])
def test_of_a_range_that_reaches_beyond_what_has_come_is_done(by_hand: Any, trigger: str) -> None:
    stream = by_hand(trigger)
    stream.write()
    state, message, _ = stream.recalculate(0, 100)
    assert (state, message) == ("Finished", f"done {at(19)}: the stream has not progressed further")
    state, message, _ = stream.recalculate(0, 12)
    assert (state, message) == (
        "Finished",
        f"done {at(4)} for 1 of 2 groups: the stream has not progressed further",
    )
    state, message, _ = stream.recalculate(8, 12)
    assert state == "Finished"
    assert message == (
        f"ignored for 1 of 2 groups: the range begins after what has been calculated ({at(4)})"
    )
    assert stream.recalculate(0, 4)[:2] == ("Finished", "")
    assert stream.recalculate(0, None)[:2] == ("Finished", ""), "no end means as far as it has come"


def test_count_windows_need_both_ends_behind_what_has_come(by_hand: Any) -> None:
    stream = by_hand("count")
    stream.write()
    state, message, events = stream.recalculate(0, None)
    assert (state, events) == ("Ignored", 0)
    assert message == "ignored: COUNT_WINDOW can be recalculated only between two times (FROM … TO …)"
    state, message, events = stream.recalculate(0, 12)
    assert state == "Finished" and events > 0
    assert message == (
        "ignored for 1 of 2 groups: COUNT_WINDOW can be recalculated only as far as it has been calculated "
        f"({at(4)}), but the range ends after that"
    )
    assert stream.recalculate(0, 4)[:2] == ("Finished", "")
