"""A window that history leaves open: the live path tells that it opened, as it will tell that it closed.

Answers to requests and live events are calculated by two loops: what is told of one window by both may come
in any order.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace_core.recalc.sending import Work
from millrace_core.wire import recalc
from millrace_core.wire.events import TriggerBatch, TriggerEvent
from millrace_core.wire.topics import HANDOVER

from ...conftest import examples
from .conftest import ALL, TRIGGERS, make, truth

NAMES = [name for name in TRIGGERS if name != "sliding"]  # its instants are no windows
VALUES = st.sampled_from([None, 1, 1, 2, 3])
old_rows = st.dictionaries(st.integers(0, 60), VALUES, min_size=1, max_size=12)


def answered_late(together: Any) -> list[TriggerEvent]:
    """The requests that wait are answered, and handed over; what they tell of windows is not heard yet."""
    told: list[TriggerEvent] = []
    asked, together.requests = together.requests, []
    for place, one in enumerate(asked):
        for output in together.answers.answer([one], (0, place), Work(), together.behind(one)):
            if isinstance(output, TriggerBatch):
                told += output.events
            else:
                key = recalc.key(output.stream, output.slot)
                together.cluster.send(HANDOVER.name, key, recalc.encode(output))
    together.run()
    return told


def places(events: list[TriggerEvent], kind: str) -> dict[int, list[int]]:
    """Start of a window -> at which places this was told of it."""
    found: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        if event.kind == kind:
            found.setdefault(event.start, []).append(place)
    return found


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(15))
@example(old={0: 1, 1: 1, 2: 1, 3: 1}, watermark=0, again=True)
@given(old=old_rows, watermark=st.sampled_from([0, 6]), again=st.booleans())
def test_a_window_opens_once_and_before_it_closes(
    kit: Any, deployment: Any, name: str, first: bool, old: dict[int, Any], watermark: int, again: bool
) -> None:
    """``again``: history is told once more, as after a kill, and the slot does not listen any more."""
    spec = make(kit, name, watermark, **{"fill_history_first" if first else "fill_history": ALL})
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        table = dict(old)
        for ts in sorted(old):
            together.write("c1", [{"ts": ts, "v": old[ts]}])
        together.run()
        together.define()
        together.run()
        history = list(together.requests)
        late = answered_late(together)
        together.newest = max(old)
        until = together.close_all(table)
        if again:
            together.requests += history
            assert answered_late(together) == late, "the same is told again"
        events = [*together.events, *late]
        opened, closed = places(events, "OPEN"), places(events, "CLOSE")
        assert set(closed) == set(truth(spec, table, until - watermark))
        for start, ends in closed.items():
            assert opened[start][0] < ends[0], f"the window at {start} closes before it opens"
        assert {start: found for start, found in opened.items() if len(found) > 1} == {}


def test_the_opening_says_what_it_would_have_said(kit: Any, deployment: Any, tmp_path: Path) -> None:
    """With the fields of its type, and that it is of history."""
    together = deployment(tmp_path, make(kit, "state", fill_history=ALL))
    together.write("c1", [(1, 1), (5, 2), (7, 2)])
    together.run()
    together.define()
    together.run()
    late = answered_late(together)
    assert [(one.kind, one.start) for one in late] == [("OPEN", 1), ("CLOSE", 1)]
    (opened,) = together.events
    assert (opened.kind, opened.cause, opened.start, opened.rownum) == ("OPEN", "HISTORY", 5, 1)
    assert opened.detail == {"prevState": 1, "curState": 2}
