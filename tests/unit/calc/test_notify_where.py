"""Which events a stream's NOTIFY tells, and what stands in them (seed 000; SEMANTICS, "Notifications")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.calc.product import Product
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Notify, Options, Output, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Session
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent

from .conftest import StoredTables

INT = DataType("INT")
SRC = Table("d", "src", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("g", INT),))
FINE = Table("u", "out", "normal", 8, "us", (Column("ts", TIMESTAMP), Column("n", BIGINT)))
BOTH = ("WINDOW_OPEN", "WINDOW_CLOSE")
QUERY = "SELECT _twstart AS ts, count(*) AS n FROM %%trows"


class Desk(StoredTables):
    """``c1`` has rows at 2, 3 and 4 seconds; each run is another stream."""

    streams = 0

    def __init__(self, folder: Path, duck: Any) -> None:
        child = Child("d", "src", "c1", (1,))
        super().__init__(folder, duck, Database("d", "ms"), Database("u", "us"), SRC, FINE, child)
        source = self.store.table(SRC)
        source.register(child)
        source.take([b"c1"], [msgspec.json.encode([{"ts": ts, "v": 2} for ts in (2_000, 3_000, 4_000)])])

    def run(self, where: str | None, query: str = QUERY, **more: Any) -> Product:
        """A session opens, closes, and another one is none any more: calculated at the close alone."""
        self.streams += 1
        spec = StreamSpec(
            self.streams, "d", "s", "", Session(Duration(1, "s")), Source(SRC), ("g",), database="d",
            query=query, output=Output("u", "out", FINE.columns),
            notify=Notify(("ws://a",), BOTH, where), **more,
        )  # fmt: skip
        self.learn(StreamEntry(spec, "Running", 0, 1))
        group = Group(5, (1,), None)
        events = [
            TriggerEvent("w", "OPEN", "LIVE", group, 2_000, 2_000, 1, 0),
            TriggerEvent("w", "CLOSE", "LIVE", group, 2_000, 4_000, 3, 0),
            TriggerEvent("x", "INVALID", "RECALC", group, 3_000, 4_000, -1, 0),
        ]
        return self.jobs.run(spec.uid, [TriggerBatch(spec.uid, 0, -1, 1, {}, events)])

    def told(self, where: str | None, query: str = QUERY, **more: Any) -> list[str]:
        kinds = [notice.event["eventType"] for notice in self.run(where, query, **more).notices]
        return [str(kind).removeprefix("WINDOW_") for kind in kinds]


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    return Desk(tmp_path, duck)


ALL = ["OPEN", "CLOSE", "INVALIDATION"]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (None, ALL),
        ("1 > 2", []),
        ("1 < 2", ALL),
        ("null", []),
        ("lower('A') = 'a'", ALL),
        ("n > 2", ["CLOSE"]),
        ("n > 3", []),
        ("n > 3 or 1 < 2", ["CLOSE"]),
    ],
)
def test_what_each_event_needs(desk: Desk, where: str | None, told: list[str]) -> None:
    assert desk.told(where) == told


def test_openings_that_are_calculated_are_judged_by_their_result(desk: Desk) -> None:
    opening = Options(event_types=BOTH)
    assert desk.told("n > 0", options=opening) == ["OPEN", "CLOSE"]
    assert desk.told("n > 9", options=opening) == []


def test_a_result_without_a_row_meets_a_condition_of_constants_alone(desk: Desk) -> None:
    none = "SELECT _twstart AS ts, v AS n FROM src WHERE v > 9"
    assert desk.told("n > 0", none) == []
    assert desk.told("1 < 2", none) == ALL
    assert desk.told("1 > 2", none) == []


def test_columns_are_named_as_in_select(desk: Desk) -> None:
    query = "SELECT _twstart AS ts, count(*) FROM %%trows"
    assert desk.told("count(*) > 2", query) == ["CLOSE"]
    assert desk.told("COUNT(*) > 3", query) == []
    assert desk.told("`count(*)` = 3", query) == ["CLOSE"]
    query = "SELECT _twstart AS ts, avg(v) + 1 FROM %%trows"
    assert desk.told("avg(v) + 1 = 3", query) == ["CLOSE"]


def test_times_of_the_result_have_the_output_table_s_precision_as_the_window_s_have(desk: Desk) -> None:
    (closing,) = desk.run("n > 2").notices
    assert closing.event["windowStart"] == 2_000_000
    assert closing.event["result"] == {"ts": 2_000_000, "n": 3}
    assert closing.event["tableName"] == "out"


def test_calc_notify_only_names_no_table(desk: Desk) -> None:
    product = desk.run(None, options=Options(calc_notify_only=True))
    assert [notice.event.get("tableName") for notice in product.notices] == [None] * 3
    assert product.messages == []
