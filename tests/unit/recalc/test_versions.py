"""Rows that rewrite others and cannot be judged alone: PRE_FILTER leaves the new version out, or it names
some columns only. Whatever the order of arrival, the windows are those of the stored rows in order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Condition
from millrace_core.wire import control, status

from ...conftest import examples
from .conftest import ALL, CUT_AGAIN, make, over, same_but_empty, truth

POSITIVE = msgspec.convert(over("gt", 0), Condition)
COLUMNS = {"v": "INT", "w": "INT"}
ENDS = [(40, 1), (1, 9), (1, 8), (1, 1), (60, 7)]
"""Far behind everything: what is open closes."""
UNNAMED = "unnamed"
steps = st.lists(
    st.tuples(st.integers(-25, 12), st.sampled_from([None, -1, 1, 1, 2, 2, 3, UNNAMED]), st.booleans()),
    min_size=4, max_size=20,
)  # fmt: skip


def filtered(kit: Any, name: str, watermark: int) -> Any:
    spec = make(kit, name, watermark, pre_filter=POSITIVE)
    table = kit.stream(columns=COLUMNS).source.table
    return msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, table=table))


@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(12), deadline=None)
@given(steps=steps, watermark=st.sampled_from([0, 0, 6]), pre_filter=st.booleans())
def test_any_order_of_versions_ends_in_the_windows_of_the_stored_rows(
    kit: Any, deployment: Any, name: str, steps: list[Any], watermark: int, pre_filter: bool
) -> None:
    spec = filtered(kit, name, watermark)
    if not pre_filter:
        spec = msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, pre_filter=None))
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        together.define()
        stored: dict[int, Any] = {}
        newest = 0
        for forward, value, answered in [(1, 1, True), *steps, *((*end, True) for end in ENDS)]:
            ts = max(0, newest + forward)
            together.write("c1", [{"ts": ts, "w": 5} if value == UNNAMED else {"ts": ts, "v": value}])
            stored[ts] = stored.get(ts) if value == UNNAMED else value
            newest = max(newest, ts)
            together.run()
            if answered:
                together.answer()
        table = {ts: v for ts, v in stored.items() if not pre_filter or (v is not None and v > 0)}
        same_but_empty(name, together.windows(), truth(spec, table, max(table) - watermark))


def test_an_update_that_the_filter_leaves_out_takes_the_row_out_of_its_session(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    together = deployment(tmp_path, filtered(kit, "session", 0))
    together.define()
    together.write("c1", [[0, 1], [4, 1], [8, 1], [30, 1]])
    together.run()
    assert together.windows() == {0: (8, 3)}
    together.write("c1", [[4, -1]])
    together.run()
    together.answer()
    assert together.windows() == {0: (0, 1), 8: (8, 1)}
    assert together.cluster.totals()["filtered"] == 1


def test_rows_in_order_that_are_filtered_ask_for_nothing(kit: Any, deployment: Any, tmp_path: Path) -> None:
    together = deployment(tmp_path, filtered(kit, "state", 0))
    together.define()
    together.write("c1", [[0, 1], [1, -1], [2, 2], [3, -1], [4, None], [5, -1]])
    together.write("c1", [[6, 3], [7, -1]])
    together.run()
    assert not together.requests


@pytest.mark.parametrize("watermark", [0, 10])
def test_an_update_of_another_column_keeps_the_state(
    kit: Any, deployment: Any, tmp_path: Path, watermark: int
) -> None:
    spec = filtered(kit, "state", watermark)
    spec = msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, pre_filter=None))
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [[0, 1], [4, 1], [8, 1]])
    together.run()
    together.write("c1", [{"ts": 4, "w": 7}])
    together.write("c1", [{"ts": 8, "w": 7}])
    together.write("c1", [[9, 2], [30, 3], [60, 4], [75, 4]])
    together.run()
    together.answer()
    assert {start: end for start, (end, _) in together.windows().items()} == {0: 8, 9: 9, 30: 30}
    together.cluster.tick(60_000)
    together.run()
    told = [news.totals for news in together.cluster.status if isinstance(news, status.Counters)]
    totals = max(told, key=lambda one: one.get("rows_read", 0))
    # one waits for the watermark
    assert totals["rows_read"] == totals["rows_used"] + (1 if watermark else 0)


def test_by_hand_a_sliding_trigger_runs_again_for_any_of_its_rows(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = make(kit, "sliding")
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [5, 15, 25, 31])
    together.run()
    for first, last, again in ((11, 19, [20]), (10, 10, [10]), (20, 21, [20, 30]), (31, 39, [])):
        before = len(together.events)
        together.cluster.control(control.RecalculateStream(spec.uid, first, last))
        together.run()
        together.answer()
        assert [event.end for event in together.events[before:]] == again


def test_a_version_that_comes_while_rows_of_a_stop_are_awaited(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    spec = filtered(kit, "state", 0)
    options = msgspec.structs.replace(spec.options, fill_history=ALL)
    spec = msgspec.structs.replace(spec, options=options)
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [[0, 1], [4, 1], [6, 1]])
    together.run()
    together.cluster.control(control.StopStream(spec.uid))
    together.run()
    together.write("c1", [[8, 1]])
    live_from = {0: together.cluster.ends[together.topic]}
    together.cluster.control(control.StartStream(spec.uid, live_from, 1, untreated=True))
    together.run()
    together.write("c1", [{"ts": 4, "w": 7}])  # keeps its state
    together.write("c1", [[6, -1]])  # leaves the window
    together.write("c1", [[9, 2], [30, 3], [40, 4]])
    together.run()
    together.answer()
    told = together.windows()
    assert {start: end for start, (end, _) in told.items()} == {0: 8, 9: 9, 30: 30}
    assert told[0][1] in (-1, 3)
