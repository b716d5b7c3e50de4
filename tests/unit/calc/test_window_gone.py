"""Windows that were cut again, and of which rows went before they were calculated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.jobs.compute import Calculator
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.product import Product
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Condition, Duration, Output, Source, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Event, Interval, Session, State
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.operations import Delete, encode_operation

from .conftest import StoredTables

INT = DataType("INT")
SRC = Table("d", "src", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("g", INT),))
OUT = Table("d", "out", "normal", 8, "ms", (Column("ts", TIMESTAMP), Column("n", BIGINT)))
CHILDREN = [Child("d", "src", name, (1,)) for name in ("c1", "c2")]
SECOND = Duration(1, "s")
STATE = State("v")
BEGUN_BY_A_ROW = [STATE, Session(SECOND), Event(Condition("v > 1", ("v",)), Condition("v > 2", ("v",)))]


class Desk(StoredTables):
    """Two tables of one group; ``c1`` has rows at 2, 3 and 4 seconds."""

    def __init__(self, folder: Path, duck: Any) -> None:
        super().__init__(folder, duck, Database("d", "ms"), SRC, OUT, *CHILDREN)
        self.source = self.store.table(SRC)
        for child in CHILDREN:
            self.source.register(child)
        self.write("c1", 2_000, 3_000, 4_000)

    def write(self, name: str, *times: int) -> None:
        rows = [{"ts": ts, "v": 2} for ts in times]
        self.source.take([name.encode()], [msgspec.json.encode(rows)])

    def delete(self, ts: int) -> None:
        self.source.take([b"c1"], [encode_operation(Delete(ts, ts))])

    def run(
        self, trigger: Trigger, *starts: int, cause: Any = "RECALC", kinds: Sequence[Any] = ("CLOSE",)
    ) -> Product:
        spec = StreamSpec(
            1, "d", "s", "", trigger, Source(SRC), ("g",), database="d",
            output=Output("d", "out", OUT.columns),
            query="SELECT _twstart AS ts, count(*) AS n FROM %%trows",
        )  # fmt: skip
        self.learn(StreamEntry(spec, "Running", 0, 1))
        group = Group(5, (1,), None)
        events = [
            TriggerEvent(f"w{start}", kind, cause, group, start, 4_000, 3, 0)
            for start in starts
            for kind in kinds
        ]
        return self.jobs.run(1, [TriggerBatch(1, 0, -1, 1, {}, events)])


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    return Desk(tmp_path, duck)


def results(product: Product) -> list[tuple[int, int]]:
    rows = [row for message in product.messages for row in msgspec.json.decode(message.value or b"")]
    return [(row["ts"], row["n"]) for row in rows]


@pytest.mark.parametrize("trigger", BEGUN_BY_A_ROW, ids=lambda trigger: type(trigger).__name__)
def test_a_window_that_has_lost_its_first_row_is_none(desk: Desk, trigger: Trigger) -> None:
    desk.delete(2_000)
    product = desk.run(trigger, 2_000, 3_000)
    assert results(product) == [(3_000, 2)]
    assert product.counts["window_gone"] == 1


def test_another_row_that_went_leaves_the_window(desk: Desk) -> None:
    desk.delete(3_000)
    product = desk.run(STATE, 2_000)
    assert results(product) == [(2_000, 2)]
    assert "window_gone" not in product.counts


def test_a_row_of_another_table_of_the_group_begins_it_as_well(desk: Desk) -> None:
    desk.write("c2", 2_000)
    desk.delete(2_000)
    assert results(desk.run(STATE, 2_000)) == [(2_000, 3)]


@pytest.mark.parametrize(
    "trigger", [State("v", extend=2), Interval(SECOND, SECOND)], ids=["extended", "interval"]
)
def test_windows_that_begin_without_a_row_stay(desk: Desk, trigger: Trigger) -> None:
    desk.delete(2_000)
    product = desk.run(trigger, 2_000)
    assert [ts for ts, _ in results(product)] == [2_000]


def test_what_closed_live_is_calculated_from_the_rows_as_they_are(desk: Desk) -> None:
    desk.delete(2_000)
    assert results(desk.run(STATE, 2_000, cause="LIVE")) == [(2_000, 2)]


def test_that_a_window_is_gone_is_told_beside_the_window_itself(desk: Desk) -> None:
    """Chaos, seed 1: both answers were calculated together after a restart."""
    desk.delete(2_000)
    product = desk.run(STATE, 2_000, kinds=["CLOSE", "INVALID"])
    assert results(product) == []
    assert [one.event["eventType"] for one in product.notices] == ["WINDOW_INVALIDATION"]


def test_a_row_that_goes_just_before_it_is_read_counts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Calculator.calculate

    def calculate(self: Calculator, *given: Any) -> list[Outcome]:
        desk.delete(2_000)
        return real(self, *given)

    monkeypatch.setattr(Calculator, "calculate", calculate)
    assert results(desk.run(STATE, 2_000)) == []
