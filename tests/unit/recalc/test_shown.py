"""Windows that are shown before they close: in the end the results are those of all rows that there are, in
whatever order they came, however often they were written again or deleted, and wherever batches end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Duration, Emission
from millrace_core.recalc.cut import Cutter, in_order
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types.occurrences import CLOSE
from millrace_core.trigger.types.reach import Rows
from millrace_core.wire.operations import Delete

from ...conftest import examples
from .conftest import TRIGGERS

NAMES = ["interval", "overlapping", "session", "state", "event"]


def shown(kit: Any, name: str, watermark: int, when: Any = "at_once", every: int | None = None) -> Any:
    spec = kit.stream(trigger=TRIGGERS[name], watermark=watermark)
    fixed = name in ("interval", "overlapping")
    options = msgspec.structs.replace(spec.options, ignore_nodata_trigger=fixed, delete_recalc=True)
    emission = Emission(when, Duration(every, "a") if every else None, obsolete="retracted")
    return msgspec.structs.replace(spec, options=options, emission=emission)


def all_windows(spec: Any, table: dict[int, Any]) -> dict[int, int]:
    """Start -> end of the windows of these rows, open ones too where they are shown."""
    windower = compiled(essence(spec)).windower
    cells = sorted(table.items())
    columns: dict[str, Any] = {}
    for signal in windower.signals:
        values = [v for _, v in cells]
        if signal.name in ("start", "end"):
            met = [v is not None and (v >= 3 if signal.name == "start" else v < 2) for v in values]
            columns[signal.name] = np.array(met, dtype=bool)
        else:
            columns[signal.name] = np.array([*values, None], dtype=object)[:-1]
    ts = np.array([ts for ts, _ in cells], dtype=np.int64)
    cutter = Cutter(windower, 1)
    cut = in_order([cutter.feed(Rows(np.zeros(len(ts), dtype=np.int64), ts, columns))])
    cut = cut.take(cut.kind == CLOSE)
    found = dict(zip(cut.start.tolist(), cut.end.tolist(), strict=True))
    if windower.shows_open:
        found |= {window.start: window.end for window in windower.so_far(cutter.memory.get(0))}
    return found


def results(spec: Any, events: Any) -> dict[int, int]:
    """Start -> end of what stands, as calc-svc has it: a window of rows leaves room for no other in it."""
    alone = type(spec.trigger).__name__ != "Interval"
    found: dict[int, int] = {}
    for event in events:
        if event.kind in ("RETRACT", "INVALID"):
            last = event.end if event.kind == "RETRACT" else event.start
            found = {start: end for start, end in found.items() if not event.start <= start <= last}
        elif event.kind == "CLOSE":
            if alone:
                found = {start: end for start, end in found.items() if not event.start < start <= event.end}
            found[event.start] = event.end
    return found


step = st.tuples(
    st.integers(-12, 6), st.sampled_from([None, 1, 1, 2, 3, 3]), st.booleans(),
    st.sampled_from([0, 0, 0, 0, 0, 1, 6]),
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=1, max_size=16), watermark=st.sampled_from([0, 0, 5]))
def test_what_is_shown_are_the_windows_of_all_rows(
    kit: Any, deployment: Any, tmp_path_factory: Any, name: str, steps: Any, watermark: int
) -> None:
    spec = shown(kit, name, watermark)
    one = deployment(Path(tmp_path_factory.mktemp("shown")), spec)
    one.define()
    one.run()
    table: dict[int, Any] = {}
    newest = 0
    for forward, value, cut, gone in steps:
        ts = newest + forward
        if gone and table:
            one.cluster.operate("c1", Delete(ts, ts + gone - 1), one.table)
            table = {at: v for at, v in table.items() if not ts <= at < ts + gone}
        else:
            newest = max(newest, ts)
            one.write("c1", [[ts, value]])
            table[ts] = value
        if cut:
            one.run()
            one.answer()
    one.run()
    one.answer()
    assert results(spec, one.events) == all_windows(spec, table)


def test_a_window_is_shown_once_a_delay_after_its_first_row_not_shown(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(shown(kit, "interval", 0, "max_delay", 5_000))
    cluster.run()
    begin = cluster.now
    cluster.write("c1", [1, 2])
    cluster.run()
    written = cluster.now
    cluster.tick(written + 4_990)
    cluster.run()
    assert cluster.delayed() == []
    cluster.tick(written + 5_010)
    cluster.run()
    assert cluster.delayed() == ["c1 CLOSE 0-10 x2"] and begin < written
    cluster.tick(written + 50_000)
    cluster.run()
    assert len(cluster.delayed()) == 1, "no new rows, no new result"
    cluster.write("c1", [3, 12])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x3"]}
    cluster.tick(cluster.now + 5_010)
    cluster.run()
    assert cluster.delayed()[1:] == ["c1 CLOSE 10-20 x1"]


def test_rows_that_wait_for_the_watermark_are_shown(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(shown(kit, "session", 20))
    cluster.write("c1", [1, 3])
    cluster.run()
    cluster.write("c1", [20, 6])
    cluster.run()
    assert cluster.live() == {}
    assert cluster.delayed() == ["c1 CLOSE 1-3 x2", "c1 CLOSE 1-6 x3", "c1 CLOSE 20-20 x1"]
    cluster.write("c1", [11])
    cluster.run()
    assert cluster.delayed()[3:] == ["c1 CLOSE 1-11 x4"]


def test_part_filled_windows_of_rows_are_shown(kit: Any) -> None:
    spec = kit.stream(trigger={"Count": {"count": 4, "sliding": 2}}, watermark=100)
    spec = msgspec.structs.replace(spec, emission=Emission("at_once", obsolete="retracted", late="dropped"))
    cluster = kit.Cluster()
    cluster.define(spec)
    cluster.write("c1", range(1, 9))
    cluster.run()
    assert cluster.delayed() == [
        "c1 CLOSE 1-4 x4", "c1 CLOSE 3-6 x4", "c1 CLOSE 5-8 x4", "c1 CLOSE 7-8 x2",
    ]  # fmt: skip


def test_windows_between_two_conditions_are_shown_once_they_close(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(shown(kit, "event", 10))
    cluster.write("c1", [[1, 3], [2, 2]])
    cluster.run()
    assert cluster.delayed() == []
    cluster.write("c1", [[3, 1], [4, 3]])
    cluster.run()
    assert cluster.delayed() == ["c1 CLOSE 1-3 x3"] and cluster.live() == {}
