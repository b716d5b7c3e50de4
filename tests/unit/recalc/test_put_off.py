"""Closed windows that change are cut again from time to time (``Emission.when`` "continuous_window_close"):
nothing is asked before, and in the end every window is that of the rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Duration, Emission
from millrace_core.wire.operations import Delete

from ...conftest import examples
from .conftest import make, same_but_empty, truth

EVERY = Duration(1, "s")
steps = st.lists(
    st.tuples(st.integers(-40, 12), st.sampled_from([1, 2, "delete"]), st.integers(0, 12), st.booleans()),
    min_size=3, max_size=15,
)  # fmt: skip


def put_off(kit: Any, name: str) -> Any:
    spec = make(kit, name, delete_recalc=True)
    return msgspec.structs.replace(spec, emission=Emission("continuous_window_close", EVERY))


def test_late_rows_rewritten_rows_and_deletes_wait_and_are_one_request(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    together = deployment(tmp_path, put_off(kit, "interval"))
    together.define()
    together.write("c1", [[1, 1], [12, 1], [35, 1]])
    together.run()
    told = len(together.events)
    for row in ([2, 1], [1, 5], [14, 1]):
        together.write("c1", [row])
        together.run()
    together.cluster.operate("c1", Delete(12, 12), together.table)
    together.run()
    assert not together.requests and len(together.events) == told
    together.cluster.tick(999)
    together.run()
    assert not together.requests
    together.cluster.tick(1000)
    together.run()
    (request,) = together.requests
    assert request.why == "CHANGE" and [(p.first, p.last) for p in request.parts] == [(0, 19)]
    together.answer()
    assert together.windows()[0] == (10, 2) and together.windows()[10] == (20, 1)
    together.cluster.tick(5000)
    together.run()
    assert not together.requests, "what is done is done"
    together.write("c1", [[3, 1]])
    together.run()
    together.cluster.tick(5999)
    together.run()
    assert not together.requests
    together.cluster.tick(6000)
    together.run()
    assert len(together.requests) == 1


@pytest.mark.parametrize("name", ["interval", "overlapping"])
@settings(max_examples=examples(15), deadline=None)
@given(steps)
def test_any_order_ends_in_the_windows_of_the_rows_in_order(
    kit: Any, deployment: Any, name: str, steps: list[Any]
) -> None:
    spec = put_off(kit, name)
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        together.define()
        table: dict[int, Any] = {1: 1}
        together.write("c1", [[1, 1]])
        newest = 1
        for forward, value, length, ticks in steps:
            ts = max(0, newest + forward)
            if value == "delete":
                together.cluster.operate("c1", Delete(ts, ts + length), together.table)
                table = {t: v for t, v in table.items() if not ts <= t <= ts + length}
            else:
                together.write("c1", [[ts, value]])
                table[ts] = value
                newest = max(newest, ts)
            together.run()
            if ticks:
                together.cluster.tick(together.cluster.now + 1000)
                together.run()
                together.answer()
        together.write("c1", [[newest + 40, 1]])
        table[newest + 40] = 1
        together.run()
        together.cluster.tick(together.cluster.now + 2000)
        together.run()
        together.answer()
        same_but_empty(name, together.windows(), truth(spec, table, newest + 40))
