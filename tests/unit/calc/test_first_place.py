"""Where in the log a row was written first: kept through rewriting, flushes, evictions and restarts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc_svc.jobs.recalc_rows import TriggerRows
from calc_svc.store.delta import FIRST, NAME, PLACE
from millrace_core.recalc.groups import numbered
from millrace_core.store.place import NOWHERE, place_of
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import Interval
from millrace_core.wire.operations import Delete, encode_operation
from millrace_core.wire.recalc import Request

from ...conftest import examples
from .test_trows import SECOND, Desk, row

KEPT = Path(__file__).parent / "kept_tables"
Places = dict[tuple[str, int], tuple[int, int]]


def places(desk: Desk) -> Places:
    """(table, time) -> where it was written first and last."""
    found: Places = {}
    for run in (one.living() for one in desk.stored.view().slices.runs):
        cells = (run.child.tolist(), run.ts.tolist(), run.began.tolist(), run.place.tolist())
        for child, ts, first, last in zip(*cells, strict=True):
            found[desk.stored.family.names[child], ts] = (first, last)
    return found


def delete(desk: Desk, table: str, offset: int, first: int, last: int) -> None:
    place = np.array([place_of(0, offset)], dtype=np.int64)
    desk.stored.take([table.encode()], [encode_operation(Delete(first, last))], place)
    desk.stored.advance({0: offset + 1})


step = st.one_of(
    st.tuples(st.just("write"), st.tuples(st.sampled_from(["m1", "m2"]), st.integers(0, 4))),
    st.tuples(st.just("write"), st.tuples(st.sampled_from(["m1", "m2"]), st.integers(0, 4))),
    st.tuples(st.just("delete"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["flush", "evict", "restart", "read"]), st.none()),
)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, min_size=3, max_size=12))
def test_the_first_place_stays_whatever_happens_to_the_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("tables"))
    model: Places = {}
    for offset, (what, how) in enumerate(steps):
        match what, how:
            case "write", (name, ts):
                desk.write(name, 0, offset, row(ts, offset))
                model[name, ts] = (model.get((name, ts), (offset, 0))[0], offset)
            case "delete", ts:
                delete(desk, "m1", offset, ts, ts + 1)
                model = {key: v for key, v in model.items() if key not in (("m1", ts), ("m1", ts + 1))}
            case "flush", _:
                desk.stored.flush()
            case "evict", _:
                desk.stored.evict_half()
            case "restart", _:
                desk.stored.flush()
                desk.restart()
            case _:
                assert places(desk) == model
    assert places(desk) == model


def test_a_table_of_the_version_before_is_read_and_goes_on(tmp_path: Path) -> None:
    """Its files do not tell where a row was written first: it is taken to be where it was written last."""
    shutil.copytree(KEPT / "before_first", tmp_path, dirs_exist_ok=True)
    desk = Desk(tmp_path)
    assert all(field.name != FIRST for field in DeltaTable(str(desk.stored.delta.path)).schema().fields)
    old: Places = {("m1", 100): (1, 1), ("m1", 200): (3, 3), ("m2", 100): (2, 2)}
    assert places(desk) == old
    desk.stored.rows.evict(150)
    desk.write("m1", 0, 4, row(100, 6), row(300, 7))
    desk.write("m1", 0, 5, row(200, 8))
    new: Places = {("m1", 100): (1, 4), ("m1", 200): (3, 5), ("m2", 100): (2, 2), ("m1", 300): (4, 4)}
    assert places(desk) == new
    desk.stored.flush()
    desk.restart()
    assert places(desk) == new
    stored = DeltaTable(str(desk.stored.delta.path)).to_pyarrow_table()
    cells = zip(*(stored[name].to_pylist() for name in (NAME, "ts", FIRST)), strict=True)
    assert {(name, ts): first for name, ts, first in cells} == {
        ("m1", 100): 1, ("m1", 200): 3, ("m2", 100): None, ("m1", 300): None,
    }, "most rows are written once, and cost nothing"  # fmt: skip


def test_a_row_from_before_places_were_kept_is_older_than_all_when_it_is_written_again(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    desk.write("m1", 0, 1, row(100, 1), row(200, 1))
    desk.stored.flush()
    delta = DeltaTable(str(desk.stored.delta.path))
    delta.update({f"`{PLACE}`": "NULL", f"`{FIRST}`": "NULL"})
    desk.restart()
    assert places(desk) == {("m1", 100): (NOWHERE, NOWHERE), ("m1", 200): (NOWHERE, NOWHERE)}
    desk.stored.rows.evict(150)
    desk.write("m1", 0, 2, row(100, 2), row(200, 2))
    desk.stored.flush()
    expected: Places = {("m1", 100): (NOWHERE, 2), ("m1", 200): (NOWHERE, 2)}
    assert places(desk) == expected
    desk.restart()
    assert places(desk) == expected


def test_history_has_the_rows_of_before_places_were_kept_and_those_of_its_stretch(tmp_path: Path) -> None:
    """The first message of the log is not among the former, wherever the stretch begins."""
    desk = Desk(tmp_path)
    desk.stored.take([b"m1"], [msgspec.json.encode([row(100, 1)])])
    for offset, ts in enumerate((200, 300, 400)):
        desk.write("m1", 0, offset, row(ts, 1))
    definition = compiled(essence(desk.spec("SELECT 1", Interval(SECOND, SECOND))))
    rows = TriggerRows(definition, desk.stored)
    owners = numbered(definition, rows.groups(0, 1))
    asked = Request(9, 0, 0, 1, "HISTORY", {0: 2}, 0, written={0: (1, 2)})
    assert rows.slice(0, 1_000, owners, asked).ts.tolist() == [100, 300]
    assert rows.slice(0, 1_000, owners, asked, since=True).ts.tolist() == [400]


def test_rows_of_a_flush_that_failed_behind_its_commit_are_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read by Spark as well, which takes each row as it is."""
    desk = Desk(tmp_path)
    desk.write("m1", 0, 1, row(100, 1))

    def full(before: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(desk.stored.delta, "_sync", full)
        desk.stored.flush()
    desk.write("m1", 0, 2, row(200, 2))
    desk.stored.flush()
    stored = DeltaTable(str(desk.stored.delta.path)).to_pyarrow_table()
    assert sorted(stored["ts"].to_pylist()) == [100, 200]
    assert places(desk) == {("m1", 100): (1, 1), ("m1", 200): (2, 2)}
