"""A stream of the older dialect from its statement to its result table: slots, store and answers together,
calculated on DuckDB."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from millrace_core.calc.filling import query_of
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.plan import plan_stream
from millrace_core.wire import control
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.operations import Delete

from ..calc.conftest import DuckEngine
from .conftest import Deployment

INT = DataType("INT")
METERS = Table(
    "d", "meters", "super", 7, "ms",
    (Column("ts", TIMESTAMP), Column("op", BIGINT), Column("v", INT), Column("s", INT)),
    (Column("site", INT), Column("room", INT)),
)  # fmt: skip
CHILDREN = ("c1", "c2")
FRONT = FRONT_ENDS["tdengine"]


@cache
def spec_of(sql: str, zone: str = "UTC") -> StreamSpec:
    """What the statement of a stream means."""
    catalog = Catalog()
    for record in (Database("d"), METERS):
        catalog.apply(key_of(record), encode(record))
    parsed = FRONT.parse(sql)
    spec = FRONT.lower(parsed, catalog, "d", zone)
    if spec.filled is not None:
        plan_stream(query_of(spec), catalog)
    return FRONT.complete(spec, parsed, plan_stream(spec, catalog).result, catalog)


class Older(Deployment):
    """A stream over ``d.meters``, defined before any row."""

    def __init__(self, folder: Path, sql: str, zone: str = "UTC") -> None:
        spec = spec_of(sql, zone)
        super().__init__(folder, spec, CHILDREN)
        assert spec.output is not None
        tags = tuple(tag.column for tag in spec.output.tags)
        out = Table("d", spec.output.table, "super", 99, "ms", spec.output.columns, tags)
        self.catalog.apply(9, key_of(out), encode(out))
        self.out = self.store.open(out)
        self.jobs = StreamJobs(
            Calculator(DuckEngine(), self.catalog, self.store, 1_000), self.catalog, self.store
        )  # type: ignore[arg-type]
        self.notices: list[Any] = []
        self.epoch = 0
        self.places = 0
        self.define()
        self.run()

    def _hear(self, batches: list[TriggerBatch]) -> None:
        super()._hear(batches)
        for batch in batches:
            product = self.jobs.run(self.spec.uid, [batch])
            assert product.status is None and product.waits is None, product
            self.notices += product.notices
            self.out.take([m.key for m in product.messages], [m.value for m in product.messages])

    def put(self, ts: int, v: int | None = 1, s: int | None = None, child: str = "c1") -> dict[str, Any]:
        """A row, and its values; it is looked at with the next :meth:`settle`."""
        row = {"op": self.places, "v": v, "s": s}
        self.write(child, [{"ts": ts, **row}])
        self.places += 1
        self.newest = max(self.newest, ts)
        return row

    def remove(self, first: int, last: int, child: str = "c1") -> None:
        self.cluster.operate(child, Delete(first, last), self.table)

    def pause(self) -> None:
        self.cluster.control(control.StopStream(self.spec.uid))

    def resume(self, *, untreated: bool = True) -> None:
        self.epoch += 1
        live_from = {0: self.cluster.ends.get(self.topic, 0)}
        self.cluster.control(control.StartStream(self.spec.uid, live_from, self.epoch, untreated=untreated))

    def settle(self) -> None:
        """What came is looked at, and what is asked for answered."""
        self.run()
        self.answer()

    def later(self, seconds: float) -> None:
        """So much later everything that was due has been done."""
        self.cluster.tick(self.cluster.now + int(seconds * 1_000))
        self.settle()

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """The result table, by the first columns; NULL comes last."""
        view = self.out.view()
        data, _ = view.slices.within(-(1 << 62), 1 << 62)
        rows = data.select(names).rows() if len(data) else []
        return sorted(rows, key=lambda row: [(cell is None, cell or 0) for cell in row])
