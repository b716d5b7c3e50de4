"""Groups by a column: whatever the order of arrival, and whatever rows change their key, the windows of each
key are those of its rows in order; of history as of live rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc_svc.jobs.verify_rows import JudgedRows
from millrace_core.model.expression import Field
from millrace_core.model.stream import Emission, GroupKey
from millrace_core.model.types import DataType
from millrace_core.recalc.judged import Judged
from millrace_core.trigger.stream import compiled, essence
from millrace_core.wire import control
from millrace_core.wire.operations import Delete

from ...conftest import examples
from .conftest import ALL, make, same_but_empty, truth

BY_V = (GroupKey("v", DataType("INT"), Field("v")),)
steps = st.lists(
    st.tuples(
        st.integers(-25, 12), st.sampled_from([None, 1, 2, 3, "delete"]), st.integers(0, 12),
        st.sampled_from(["c1", "c2"]), st.booleans(), st.booleans(),
    ),
    min_size=4, max_size=20,
)  # fmt: skip
FAR = 1_000


def keyed(kit: Any, name: str, partition: tuple[str, ...], watermark: int = 0, **options: Any) -> Any:
    spec = make(kit, name, watermark, delete_recalc=True, **options)
    return msgspec.structs.replace(
        spec, keys=BY_V, partition=partition, emission=Emission(rewritten="corrected")
    )


def windows(together: Any, key: tuple[Any, ...]) -> dict[int, tuple[int, int]]:
    """Start -> (end, rows) of a group's windows that were told of as closed and are not invalid."""
    found: dict[int, tuple[int, int]] = {}
    for event in together.events:
        if event.group.key == key:
            if event.kind == "INVALID":
                found.pop(event.start, None)
            elif event.kind == "CLOSE":
                found[event.start] = (event.end, event.rownum)
    return found


def check(spec: Any, name: str, together: Any, table: dict[tuple[str, int], Any], until: int) -> None:
    """What was told of every group is what its rows in order make."""
    by_key: dict[tuple[Any, ...], dict[int, Any]] = {}
    for (child, ts), value in table.items():
        key = (child, value) if spec.partition else (value,)
        by_key.setdefault(key, {})[ts] = value
    known = {event.group.key for event in together.events}
    for key in by_key.keys() | known:
        true = truth(spec, by_key.get(key, {}), until)
        told = windows(together, key)
        if spec.partition == ():
            # rows of two tables at one time are two rows
            told, true = ({s: (e, -1) for s, (e, _) in found.items()} for found in (told, true))
            if name == "interval":
                true = {s: (e, 1) for s, (e, _) in true.items()}
                told = {s: found for s, found in told.items() if s in true}
        same_but_empty(name, told, true)


@pytest.mark.parametrize("partition", [("tbname",), ()])
@pytest.mark.parametrize("name", ["interval", "session"])
@settings(max_examples=examples(8), deadline=None)
@given(steps=steps, watermark=st.sampled_from([0, 0, 6]), history=st.booleans())
def test_each_key_ends_in_the_windows_of_its_rows_in_order(
    kit: Any, deployment: Any, name: str, partition: tuple[str, ...], steps: list[Any], watermark: int,
    history: bool,
) -> None:  # fmt: skip
    spec = keyed(kit, name, partition, watermark, **({"fill_history": ALL} if history else {}))
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec, ("c1", "c2"))
        table: dict[tuple[str, int], Any] = {}
        newest, begun = 0, not history
        if begun:
            together.define()
        for place, (forward, value, length, child, cut, answered) in enumerate(steps):
            if not begun and place == len(steps) // 2:
                together.run()
                together.define()
                begun = True
            ts = max(0, newest + forward)
            if value == "delete":
                together.cluster.operate(child, Delete(ts, ts + length), together.table)
                table = {
                    one: v for one, v in table.items() if one[0] != child or not ts <= one[1] <= ts + length
                }
            else:
                together.write(child, [{"ts": ts, "v": value}])
                table[child, ts] = value
                newest = max(newest, ts)
            if cut:
                together.run()
            if cut and answered and begun:
                together.answer()
        together.run()
        together.answer()
        for key in (None, 1, 2, 3):  # far behind everything: what is open closes
            for child in ("c1", "c2"):
                for at in (FAR, FAR + 90):
                    ts = at + 4 * (0 if key is None else key) + 2 * (child == "c2")
                    together.write(child, [{"ts": ts, "v": key}])
        together.run()
        together.answer()
        for event in list(together.events):
            if event.kind in ("CLOSE", "INVALID") and event.start >= FAR - 50:
                together.events.remove(event)
        check(spec, name, together, table, FAR - 100)


@pytest.mark.parametrize("partition", [("tbname",), ()])
def test_by_hand_every_key_is_cut_again_also_those_that_no_live_row_reached(
    kit: Any, deployment: Any, tmp_path: Path, partition: tuple[str, ...]
) -> None:
    together = deployment(tmp_path, keyed(kit, "interval", partition), ("c1",))
    together.write("c1", [{"ts": 1, "v": 1}, {"ts": 2, "v": 2}, {"ts": 21, "v": 1}, {"ts": 22, "v": 2}])
    together.run()
    together.define()
    together.write("c1", [{"ts": 31, "v": 1}])
    together.run()
    together.cluster.control(control.RecalculateStream(together.spec.uid, 0, 100))
    together.run()
    together.answer()
    mine = ("c1",) if partition else ()
    assert windows(together, (*mine, 1))[0] == (10, 1) and windows(together, (*mine, 2))[0] == (10, 1)


def test_rows_are_verified_by_their_keys(kit: Any, deployment: Any, tmp_path: Path) -> None:
    spec = keyed(kit, "session", ("tbname",))
    together = deployment(tmp_path, spec, ("c1",))
    together.define()
    together.write("c1", [{"ts": 1, "v": 1}, {"ts": 2, "v": 2}, {"ts": 3, "v": 1}])
    together.run()
    rows = JudgedRows(compiled(essence(spec)), together.stored)
    found = {
        group.key: rows.judged(group, tables, Judged({0: 0}))(0, 100).rows.ts.tolist()
        for group, tables in rows.groups(0, 1).items()
    }
    assert found == {("c1", 1): [1, 3], ("c1", 2): [2]}
