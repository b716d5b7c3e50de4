"""Which series a trigger watches, and what it gets of messages."""

from __future__ import annotations

import pytest

from millrace_core.dialect.iotdb.triggers.life import TriggerState, moved
from millrace_core.dialect.iotdb.triggers.tablets import Watched, batch_of
from millrace_core.dialect.iotdb.triggers.watch import Watch, read_pattern
from millrace_core.model.device import Device, Series
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import DOUBLE, TIMESTAMP, DataType
from millrace_core.wire.rows.decoder import RowDecoder, encode_rows

TABLE = Table(
    "root.p", "devices", "super", 1, "ms",
    (Column("time", TIMESTAMP), Column("v", DOUBLE), Column("n", DataType("INT")),
     Column("s", DataType("VARCHAR", 10))),
    (Column("device", DataType("VARCHAR", 64)),),
)  # fmt: skip
V, N, S = Series("v", "DOUBLE", "v"), Series("n", "INT32", "n"), Series("s", "TEXT", "s")


def device(name: str = "root.p.hall.d", *series: Series) -> Device:
    return Device("root.p", name, series or (V, N))


@pytest.mark.parametrize(
    ("pattern", "measurements"),
    [
        ("root.**", ["n", "v"]), ("root.p.hall.d.v", ["v"]), ("root.p.*.d.*", ["n", "v"]), ("root.p.*.v", []),
        ("root.p.**.v", ["v"]), ("root.p.hall.d", []), ("root.p.h*.d.n", ["n"]), ("root.q.**", []),
        ("root.p.hall.d.**", ["n", "v"]),
    ],
)  # fmt: skip
def test_a_pattern_means_series(pattern: str, measurements: list[str]) -> None:
    watch = Watch(read_pattern(pattern))
    assert [one.measurement for one in watch.series_of(device())] == measurements
    if measurements:
        assert watch.reaches(("root", "p"))


def test_a_pattern_is_held_against_the_series_that_a_device_has_now() -> None:
    watch = Watch(read_pattern("root.p.d.v"))
    assert watch.series_of(device("root.p.d", N)) == ()
    assert watch.series_of(device("root.p.d", N, V)) == (V,)
    assert not watch.reaches(("root", "q")) and not watch.reaches(("root", "p", "d", "v", "x"))


def test_tablets_hold_what_is_watched_and_not_null() -> None:
    messages: list[list[dict[str, object]]] = [
        [{"time": 1, "v": 1.5, "n": 7}, {"time": 2, "n": 8}, {"time": 3, "v": None, "n": None}],
        [{"time": 4, "v": 2.5}],
        [{"time": 5, "s": "x"}],
        [{"time": 6, "v": None}],
        [{"time": 7, "v": 9.0}],
    ]
    decoded = RowDecoder(TABLE).decode([encode_rows(rows) for rows in messages])
    watched = [
        Watched("root.p.a", (N, V)), Watched("root.p.b", (V,)), Watched("root.p.c", (S,)),
        Watched("root.p.b", (V,)), None,
    ]  # fmt: skip
    batch = batch_of(decoded, watched)
    assert batch is not None
    parts = [(part.message, part.device, batch.times[part.begin : part.end].tolist()) for part in batch.parts]
    assert parts == [
        (0, "root.p.a", [1, 2]), (1, "root.p.b", [4]), (2, "root.p.c", [5]),
    ]  # fmt: skip
    lists = [[(name, type_) for name, type_, _ in one] for one in batch.series]
    assert lists == [[("n", "INT32"), ("v", "DOUBLE")], [("v", "DOUBLE")], [("s", "TEXT")]]
    by_name = {name: batch.columns[column] for one in batch.series for name, _, column in one}
    assert by_name["v"][2].tolist() == [True, False, True, False]
    assert by_name["n"][1].tolist()[:2] == [7, 8]
    assert by_name["s"][1].tolist()[-1] == "x"
    assert batch_of(decoded, [None] * 5) is None


def test_a_trigger_that_is_dropped_stays_so() -> None:
    assert moved(TriggerState.INACTIVE, TriggerState.ACTIVE) is TriggerState.ACTIVE
    assert moved(TriggerState.DROPPING, TriggerState.ACTIVE) is TriggerState.DROPPING
