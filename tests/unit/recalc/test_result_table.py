"""The result table of a stream that takes results back: after any order of rows, rewritten rows and deletes
it holds what one query over the rows as they are now gives, and nothing else."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Emission, Output, OutputTag, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.operations import Delete, operation_in

from ...conftest import examples
from ..calc.conftest import DuckEngine
from .conftest import CUT_AGAIN, Deployment, make, truth
from .test_together import steps

TAG = OutputTag(Column("of", DataType("VARCHAR", 270)), "tbname")
COLUMNS = (Column("ts", TIMESTAMP), Column("n", BIGINT), Column("s", BIGINT))
OUT = Table("d", "res", "super", 99, "ms", COLUMNS, (TAG.column,))
Rows = dict[int, tuple[int, int | None]]


class Calculated(Deployment):
    """A deployment that calculates what it hears of, on DuckDB, into an output table."""

    def __init__(self, folder: Path, spec: StreamSpec) -> None:
        super().__init__(folder, spec)
        self.catalog.apply(9, key_of(OUT), encode(OUT))
        self.out = self.store.open(OUT)
        calculator = Calculator(DuckEngine(), self.catalog, self.store, 1_000)  # type: ignore[arg-type]
        self.jobs = StreamJobs(calculator, self.catalog, self.store)
        self.deletes = 0

    def _hear(self, batches: list[TriggerBatch]) -> None:
        super()._hear(batches)
        for batch in batches:
            product = self.jobs.run(self.spec.uid, [batch])
            assert product.status is None and product.waits is None, product
            messages = product.messages
            self.out.take([m.key for m in messages], [m.value for m in messages])
            self.deletes += sum(isinstance(operation_in(m.value), Delete) for m in messages)

    def results(self) -> Rows:
        """Time -> (rows, sum)."""
        data, _ = self.out.view().slices.within(-(1 << 62), 1 << 62)
        return {ts: (n, s) for ts, n, s in data.select("ts", "n", "s").rows()}


def retracting(kit: Any, name: str, watermark: int) -> StreamSpec:
    spec = make(kit, name, watermark, delete_recalc=True, ignore_nodata_trigger=True)
    found: StreamSpec = msgspec.structs.replace(
        spec, emission=Emission(obsolete="retracted"), database="d",
        query="SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows",
        options=msgspec.structs.replace(spec.options, event_types=("WINDOW_CLOSE",)),
        notify=None, output=Output("d", "res", COLUMNS, (TAG,)),
    )  # fmt: skip
    return found


def batch_query(spec: StreamSpec, table: dict[int, int | None], until: int) -> Rows:
    """What one query gives over the windows of these rows that are closed at ``until``."""
    found: Rows = {}
    open_end = type_of(spec.trigger).moment.half_open
    for start, (end, _) in truth(spec, table, until).items():
        values = [v for ts, v in table.items() if start <= ts <= end - open_end]
        known = [v for v in values if v is not None]
        if values:
            found[start] = (len(values), sum(known) if known else None)
    return found


def driven(together: Calculated, steps: list[Any]) -> dict[int, int | None]:
    """Do these steps, then write rows behind which all that was open is closed: the rows as they are then."""
    table = together.drive(steps)
    together.close_all(table)
    return table


@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(3, cases=True))
@given(steps=steps, watermark=st.sampled_from([0, 0, 6]))
def test_the_result_table_is_that_of_the_batch_query(
    kit: Any, name: str, steps: list[Any], watermark: int
) -> None:
    spec = retracting(kit, name, watermark)
    with tempfile.TemporaryDirectory() as folder:
        together = Calculated(Path(folder), spec)
        table = driven(together, steps)
        assert together.results() == batch_query(spec, table, max(table) - watermark)


def test_two_sessions_that_become_one_leave_one_row(kit: Any, tmp_path: Path) -> None:
    spec = retracting(kit, "session", 0)
    together = Calculated(tmp_path, spec)
    together.define()
    for ts in (1, 10, 30):
        together.write("c1", [{"ts": ts, "v": ts}])
        together.run()
    assert together.results() == {1: (1, 1), 10: (1, 10)} and not together.deletes
    together.write("c1", [{"ts": 6, "v": 6}])
    together.run()
    together.answer()
    assert together.results() == {1: (3, 17)}
    assert together.deletes == 1, "only rows that are there are deleted"
    together.cluster.operate("c1", Delete(0, 10), together.table)
    together.run()
    together.answer()
    assert together.results() == {}


def test_what_is_kept_stays(kit: Any, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(retracting(kit, "session", 0), emission=Emission())
    together = Calculated(tmp_path, spec)
    together.define()
    for ts in (1, 10, 30, 6):
        together.write("c1", [{"ts": ts, "v": ts}])
        together.run()
        together.answer()
    assert together.results() == {1: (3, 17), 10: (1, 10)} and not together.deletes


# -- FILL ----------------------------------------------------------------------------------------------------

FILLS = {
    "VALUE, 100, 7": lambda before, after, share: (100, 7),
    "NULL": lambda before, after, share: (None, None),
    "PREV": lambda before, after, share: before,
    "NEXT": lambda before, after, share: after,
    "LINEAR": lambda before, after, share: tuple(
        int(a + (b - a) * share) for a, b in zip(before, after, strict=True)
    ),
}
"""What a window without rows says, between one and another; ``share``: how far it lies on the way."""


def filling(kit: Any, fill: str, watermark: int) -> StreamSpec:
    spec = retracting(kit, "interval", watermark)
    query = "SELECT _wstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows"
    return msgspec.structs.replace(
        spec,
        emission=Emission(obsolete="retracted", fill=fill),
        filled=f"{query} INTERVAL(10a) SLIDING(10a) FILL({fill})",
    )


def with_fill(found: Rows, fill: str) -> dict[int, Any]:
    made: dict[int, Any] = dict(found)
    for one, other in pairwise(sorted(found)):
        for start in range(one + 10, other, 10):
            share = (start - one) / (other - one)
            made[start] = FILLS[fill](found[one], found[other], share)
    return made


@pytest.mark.parametrize("fill", FILLS)
@settings(max_examples=examples(3, cases=True))
@given(steps=steps, watermark=st.sampled_from([0, 6]))
def test_windows_without_rows_are_filled_between_those_with_rows(
    kit: Any, fill: str, steps: list[Any], watermark: int
) -> None:
    spec = filling(kit, fill, watermark)
    with tempfile.TemporaryDirectory() as folder:
        together = Calculated(Path(folder), spec)
        table = driven(together, [(f * 3, v or 1, *rest) for f, v, *rest in steps])
        newest = max(table)
        expected = with_fill(batch_query(spec, table, newest - watermark), fill)
        assert together.results() == expected


@pytest.mark.parametrize("fill", ["VALUE, 100, 7", "NULL", "PREV"])
def test_windows_that_the_clock_closes_are_filled_once_and_stay(kit: Any, tmp_path: Path, fill: str) -> None:
    spec = filling(kit, fill, 0)
    spec = msgspec.structs.replace(
        spec, emission=Emission("force_window_close", obsolete="retracted", fill=fill)
    )
    together = Calculated(tmp_path, spec)
    together.define()
    together.run()
    together.cluster.now = 95
    together.write("c1", [[101, 2], [104, 3]])
    together.run()
    for end in (110, 120, 130):
        together.cluster.tick(end)
        together.run()
    between = FILLS[fill]((2, 5), None, 0)
    assert together.results() == {100: (2, 5), 110: between, 120: between}
    together.write("c1", [[112, 9], [135, 1]])
    together.run()
    together.cluster.tick(140)
    together.run()
    together.answer()
    assert together.results() == {100: (2, 5), 110: between, 120: between, 130: (1, 1)}
