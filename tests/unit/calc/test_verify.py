"""VERIFY STREAM over a filled store, its SQL run on DuckDB: what it says of an output table, right or not."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from calc_svc.jobs import verify as module
from calc_svc.jobs.verify import VerifyRequest, verify
from calc_svc.queries.running import Query
from millrace_core.catalog import StreamEntry, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import (
    Condition,
    Duration,
    Emission,
    Options,
    Output,
    OutputTag,
    Source,
    StreamSpec,
)
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.recalc.judged import Judged
from millrace_core.store.place import place_of
from millrace_core.trigger.types import Count, Event, Interval, Session, Sliding, State

from .conftest import StoredTables

BIGINT, INT, TEXT = DataType("BIGINT"), DataType("INT"), DataType("VARCHAR", 16)
METERS = Table(
    "d", "meters", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("site", INT),)
)
NAME = Column("name", TEXT)
OUT = Table("d", "out", "super", 8, "ms", (Column("ts", TIMESTAMP), Column("n", BIGINT)), (NAME,))
TEN = Duration(10, "a")
TENS = Interval(TEN, TEN)
EVERY = Judged({0: 0})
QUERY = "SELECT _twstart AS ts, count(*) AS n FROM %%trows"


class Desk(StoredTables):
    """A trigger table with the children c1 and c2, an output table, one stream grouped by tbname."""

    def __init__(self, folder: Path, duck: Any, trigger: Trigger, query: str = QUERY, **more: Any) -> None:
        output = Output("d", "out", OUT.columns, (OutputTag(NAME, "tbname"),), "concat('out_', tbname)")
        options = Options(**more)
        self.spec = StreamSpec(
            9, "d", "s", query, trigger, Source(METERS), ("tbname",), options, output=output, query=query,
            database="d",
        )  # fmt: skip
        children = [Child("d", "meters", name, (1,)) for name in ("c1", "c2")]
        outputs = [Child("d", "out", f"out_{name}", (name,)) for name in ("c1", "c2")]
        stream = StreamEntry(self.spec, "Running", 0, 0)
        super().__init__(folder, duck, Database("d"), METERS, OUT, stream, *children, *outputs)
        self.ends: dict[str, int] = {}

    def write(self, name: str, *rows: dict[str, Any], table: Table = METERS) -> None:
        """One message."""
        offset = self.ends.get(table.name, 0)
        self.ends[table.name] = offset + 1
        stored = self.store.table(table)
        places = np.array([place_of(0, offset)], dtype=np.int64)
        stored.take([name.encode()], [msgspec.json.encode(rows)], places)
        stored.advance({0: offset + 1})

    def rows(self, name: str, *times: int) -> None:
        self.write(name, *({"ts": ts, "v": ts % 7} for ts in times))

    def out(self, name: str, *rows: tuple[int, int]) -> None:
        self.write(f"out_{name}", *({"ts": ts, "n": n} for ts, n in rows), table=OUT)

    def verify(
        self, first: int, last: int, judged: Judged = EVERY, limit: int = 100
    ) -> list[tuple[Any, ...]]:
        found = verify(
            self.calculator, self.catalog, self.store,
            VerifyRequest(self.spec.uid, first, last, judged, limit, 30.0), Query("", 30.0),
        )  # fmt: skip
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture
def desk(tmp_path: Path, duck: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)

    def make(trigger: Trigger = TENS, query: str = QUERY, **more: Any) -> Desk:
        return Desk(tmp_path, duck, trigger, query, **more)

    return make


def test_a_right_stream_differs_in_nothing(desk: Any) -> None:
    it = desk()
    it.rows("c1", 1, 2, 15, 31)
    it.rows("c2", 5, 12)
    it.out("c1", (0, 2), (10, 1), (20, 0))
    it.out("c2", (0, 1))
    assert it.verify(0, 100) == []
    assert it.verify(12, 14) == []


def test_each_kind_of_difference_is_listed_with_its_place(desk: Any) -> None:
    it = desk()
    it.rows("c1", 1, 2, 15, 31)
    it.rows("c2", 5, 12)
    it.out("c1", (0, 5), (20, 0), (30, 1))
    it.out("c2", (0, 1), (7, 9))
    assert it.verify(0, 100) == [
        ("different", "out_c1", 0, "n", "2", "5"),
        ("missing", "out_c1", 10, None, '{"n":1}', None),
        ("extra", "out_c1", 30, None, None, '{"n":1}'),
        ("extra", "out_c2", 7, None, None, '{"n":9}'),
    ]
    assert [row[:3] for row in it.verify(0, 100, limit=2)] == [
        ("different", "out_c1", 0), ("missing", "out_c1", 10),
    ]  # fmt: skip
    # only windows that touch the range are looked at
    assert it.verify(11, 12) == [("missing", "out_c1", 10, None, '{"n":1}', None)]
    assert it.verify(21, 25) == []


V_IS_0 = Condition("v = 0", ("v",), Call("eq", (Field("v"), Constant(0))))
V_IS_1 = Condition("v = 1", ("v",), Call("eq", (Field("v"), Constant(1))))


@pytest.mark.parametrize(
    ("trigger", "query", "expected"),
    [
        (Session(Duration(3, "a")), QUERY, [(1, 2), (15, 1)]),
        (Sliding(TEN), QUERY.replace("_twstart", "_tcurrent_ts"), [(10, 2), (20, 1), (30, 0)]),
        (Count(2, 1), QUERY, [(1, 2), (2, 2), (15, 2)]),
        (State("v"), QUERY, [(1, 1), (2, 1), (15, 1)]),
        (Event(V_IS_1, V_IS_1), QUERY, [(1, 1), (15, 1)]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, msgspec.Struct) else "",
)
def test_every_trigger_that_goes_by_rows(desk: Any, trigger: Any, query: str, expected: list[Any]) -> None:
    it = desk(trigger, query)
    it.rows("c1", 1, 2, 15, 31)
    it.out("c1", *expected)
    assert it.verify(-100, 100) == []
    (ts, n), *_ = expected
    it.out("c1", (ts, n + 1))
    assert it.verify(-100, 100) == [("different", "out_c1", ts, "n", str(n), str(n + 1))]


def test_windows_of_a_count_are_counted_from_the_first_row(desk: Any) -> None:
    it = desk(Count(2, 2))
    it.rows("c1", 1, 2, 3, 4, 5)
    it.out("c1", (1, 2), (3, 2))
    assert it.verify(2, 100) == []


def test_rows_of_before_the_stream_count_only_where_it_treated_them(desk: Any) -> None:
    it = desk(query="SELECT _twstart AS ts, count(*) AS n FROM meters WHERE ts >= _twstart AND ts < _twend")
    it.rows("c1", 1, 11)
    it.rows("c1", 21, 31)
    it.out("c1", (20, 1))
    assert it.verify(0, 100, Judged({0: 1})) == []
    assert [row[:3] for row in it.verify(0, 100)] == [("missing", "out_c1", 0), ("missing", "out_c1", 10)]
    again = it.verify(0, 100, Judged({0: 1}, ((10, 19),)))
    assert [row[:3] for row in again] == [("missing", "out_c1", 10)]


def test_a_row_in_the_range_may_come_of_a_window_outside_it(desk: Any) -> None:
    it = desk(query="SELECT _twstart + 1s AS ts, count(*) AS n FROM %%trows")
    it.rows("c1", 1, 11, 1015, 1025)
    it.out("c1", (1000, 1), (1010, 1), *((ts, 0) for ts in range(1020, 2010, 10)), (2010, 1))
    assert it.verify(1000, 1014) == []
    it.out("c1", (1011, 1))
    assert it.verify(1000, 1014) == [("extra", "out_c1", 1011, None, None, '{"n":1}')]


def test_rows_of_a_table_that_several_streams_fill_are_nobodys(desk: Any) -> None:
    it = desk()
    it.rows("c1", 1, 12)
    it.out("c1", (0, 1), (5, 9))
    assert it.verify(0, 100) == [("extra", "out_c1", 5, None, None, '{"n":9}')]
    other = msgspec.structs.replace(it.spec, uid=10, name="other")
    it.learn(StreamEntry(other, "Running", 0, 0))
    assert it.verify(0, 100) == []


def test_what_was_calculated_before_the_close_is_not_judged(desk: Any) -> None:
    it = desk(Session(Duration(3, "a")), max_delay=Duration(5, "s"))
    it.rows("c1", 1, 2, 15)
    it.out("c1", (1, 2), (15, 77))
    assert it.verify(0, 100) == []
    plain = desk(Session(Duration(3, "a")))
    plain.rows("c1", 1, 2, 15)
    plain.out("c1", (1, 2), (15, 77))
    assert plain.verify(0, 100) == [("extra", "out_c1", 15, None, None, '{"n":77}')]


def older(it: Desk, when: Any = "at_once", every: int | None = None, fill: str | None = None) -> Desk:
    """The desk's stream shows windows before they close, and may fill windows without rows."""
    options = msgspec.structs.replace(it.spec.options, ignore_nodata_trigger=True)
    emission = Emission(when, Duration(every, "a") if every else None, "retracted", fill=fill)
    filled = f"SELECT _wstart AS ts, count(*) AS n FROM %%trows INTERVAL(10a) FILL({fill})" if fill else None
    it.spec = msgspec.structs.replace(it.spec, options=options, emission=emission, filled=filled)
    it.learn(StreamEntry(it.spec, "Running", 0, 0))
    return it


def test_windows_that_are_shown_at_once_are_judged_before_they_close(desk: Any) -> None:
    it = older(desk(watermark=Duration(5, "a")))
    it.rows("c1", 1, 2, 15, 31, 33)
    it.out("c1", (0, 2), (10, 1), (30, 2))
    assert it.verify(0, 100) == []
    it.out("c1", (30, 1))
    assert it.verify(0, 100) == [("different", "out_c1", 30, "n", "2", "1")]


def test_windows_that_are_shown_after_a_delay_may_be_there(desk: Any) -> None:
    it = older(desk(), "max_delay", 5000)
    it.rows("c1", 1, 2, 15, 31, 33)
    it.out("c1", (0, 2), (10, 1))
    assert it.verify(0, 100) == []
    it.out("c1", (30, 1))
    assert it.verify(0, 100) == []
    it.out("c1", (10, 2))
    assert it.verify(0, 100) == [("different", "out_c1", 10, "n", "1", "2")]


@pytest.mark.parametrize("when", ["at_once", "window_close"])
@pytest.mark.parametrize("span", [(0, 100), (12, 38), (22, 23)])
def test_what_is_filled_between_windows_with_rows_is_judged(desk: Any, when: Any, span: Any) -> None:
    it = older(desk(), when, fill="VALUE, 7")
    it.rows("c1", 1, 2, 35, 39, 61)
    it.out("c1", (0, 2), (10, 7), (20, 7), (30, 2))
    if when == "at_once":
        it.out("c1", (40, 7), (50, 7), (60, 1))
    assert it.verify(*span) == []
    it.out("c1", (20, 8))
    assert it.verify(*span) == [("different", "out_c1", 20, "n", "7", "8")]
    it.out("c1", (20, 7), (70, 7), (-10, 7))
    wrong = [("extra", "out_c1", ts, None, None, '{"n":7}') for ts in (-10, 70)]
    assert it.verify(-50, 100) == wrong


def test_an_output_that_follows_within_moments_is_waited_for(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = desk()
    it.rows("c1", 1, 12)
    monkeypatch.setattr(module, "SETTLE_SECONDS", 20.0)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        it.out("c1", (0, 1))

    # the module's own clock: other threads of this process sleep too
    monkeypatch.setattr(
        module, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic, time_ns=time.time_ns)
    )
    assert it.verify(0, 100) == []
    assert pauses == [module.SETTLE_PAUSE]


def test_too_many_windows_are_refused(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    it = desk()
    it.rows("c1", 1, 12, 500)
    monkeypatch.setattr(module, "MOST_EVENTS", 10)
    with pytest.raises(MillraceError, match="shorter") as caught:
        it.verify(0, 1000)
    assert caught.value.code is ErrorCode.TOO_LARGE


def test_a_table_that_is_gone_is_named(desk: Any) -> None:
    it = desk()
    it.catalog.apply(99, key_of(OUT), None)
    with pytest.raises(MillraceError, match=r"d\.out no longer exists") as caught:
        it.verify(0, 1)
    assert caught.value.code is ErrorCode.UNKNOWN_TABLE
