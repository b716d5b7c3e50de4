"""Windows that their rows do not make: INTERVAL's, which rows may leave empty, and the slides of days."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.slot import Slot
from millrace_core.trigger.types.interval.windower import NONE
from millrace_core.wire import control
from millrace_core.wire.operations import Delete

from ...conftest import examples
from .conftest import both, make, same, truth

steps = st.lists(
    st.tuples(
        st.integers(-25, 12), st.sampled_from([1, 2, 2, "delete", "delete"]), st.integers(0, 12),
        st.booleans(), st.booleans(),
    ),
    min_size=4, max_size=25,
)  # fmt: skip


@pytest.mark.parametrize("trigger", ["interval", "overlapping"])
@settings(max_examples=examples(15))
@given(steps=steps, watermark=st.sampled_from([0, 0, 6]))
def test_a_window_whose_rows_are_all_deleted_is_none_under_ignore_nodata_trigger(
    kit: Any, deployment: Any, trigger: str, steps: list[Any], watermark: int
) -> None:
    spec = make(kit, trigger, watermark, delete_recalc=True, ignore_nodata_trigger=True)
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        table = together.drive([*steps, (90, 1, 0, True, True)])
        together.answer()
        same(together.windows(), truth(spec, table, together.newest - watermark))


def test_the_first_window_of_a_group_that_loses_all_its_rows_is_told_again_empty(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    together = deployment(tmp_path, make(kit, "interval", delete_recalc=True))
    together.define()
    together.write("c1", [3, 7, 25, 41])
    together.run()
    before = len(together.events)
    together.cluster.operate("c1", Delete(-5, 28), together.table)
    together.run()
    together.answer()
    told = [(e.kind, e.start, e.end, e.rownum, e.cause) for e in together.events[before:]]
    assert told == [
        (kind, start, start + 10, 0, "RECALC") for start in (0, 10, 20) for kind in ("OPEN", "CLOSE")
    ], "none before the first one, though the range reaches there"
    together.cluster.operate("c1", Delete(-1000, 1000), together.table)
    together.run()
    together.answer()
    assert {start: rows for start, (_, rows) in together.windows().items()} == {0: 0, 10: 0, 20: 0, 30: 0}


def test_an_emptied_window_under_ignore_nodata_trigger_is_invalid(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = make(kit, "interval", delete_recalc=True, ignore_nodata_trigger=True)
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [3, 7, 15, 25, 41])
    together.run()
    before = len(together.events)
    for first, last in ((12, 18), (3, 3), (0, 9)):
        together.cluster.operate("c1", Delete(first, last), together.table)
        together.run()
        together.answer()
    told = [(e.kind, e.start, e.end, e.rownum) for e in together.events[before:]]
    assert told == [("INVALID", 10, 20, -1), ("OPEN", 0, 10, 1), ("CLOSE", 0, 10, 1), ("INVALID", 0, 10, -1)]


def test_a_range_before_the_first_window_that_is_known_begins_at_the_row_before(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    """A state of before groups knew their first windows: the next row seems to be the first."""
    together = deployment(tmp_path, make(kit, "interval", delete_recalc=True))
    together.define()
    together.write("c1", [3, 15, 25])
    together.run()
    for number, blob in together.cluster.blobs.items():
        slot = Slot.restore(blob)
        for stream in slot.contents.streams.values():
            stream.memory.singles["first"][:] = NONE
        together.cluster.blobs[number] = slot.snapshot()
    together.write("c1", [41])
    together.run()
    before = len(together.events)
    together.cluster.operate("c1", Delete(12, 18), together.table)
    together.run()
    together.answer()
    assert [(e.kind, e.start, e.rownum) for e in together.events[before:]] == [
        ("OPEN", 10, 0),
        ("CLOSE", 10, 0),
    ]


def test_by_hand_slides_of_days_keep_the_instants_of_their_group(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    """Counted from the first row that was judged; a group of which none was, from its first stored row."""
    spec = kit.stream(trigger={"Sliding": {"sliding": {"value": 25, "unit": "h"}}}, kinds=both)
    together = deployment(tmp_path, spec, ("c1", "c2"))
    hour = 3_600_000
    together.write("c1", [3 * 24 * hour])
    together.write("c2", [30 * hour, 80 * hour])
    together.run()
    together.define()
    together.write("c1", [100 * hour, 120 * hour, 150 * hour])
    together.run()
    live = [(event.start // hour, event.end // hour) for event in together.events]
    assert live == [(96, 121), (121, 146)], "counted from hour 96, the midnight before the row of hour 100"
    together.cluster.control(control.RecalculateStream(spec.uid, 0, None))
    together.run()
    together.answer()
    again = {(e.group.table, e.start // hour, e.end // hour) for e in together.events if e.cause == "RECALC"}
    assert again == {
        ("c1", 71, 96), ("c1", 96, 121), ("c1", 121, 146), ("c2", 24, 49), ("c2", 49, 74),
    }  # fmt: skip
