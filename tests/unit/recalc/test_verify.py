"""VERIFY STREAM without I/O: which rows a stream has judged, and how two sets of rows differ."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from millrace_core.model.schema import Column
from millrace_core.model.stream import Duration, Output, Source
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.recalc.judged import Judged, judged_of, merged, refusal
from millrace_core.recalc.reach import Read
from millrace_core.recalc.verify import Texts, cut_range, differences, farthest, same
from millrace_core.trigger.groups import RANGE
from millrace_core.trigger.types import Sliding
from millrace_core.trigger.types.count.windower import CountWindower
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire import control

N, X, ON = Column("n", DataType("BIGINT")), Column("x", DataType("DOUBLE")), Column("on", DataType("BOOL"))
AT = Column("at", TIMESTAMP)
TEXTS = Texts("ms", "UTC")


def reader(*times: int) -> Read:
    ts = np.array(sorted(times), dtype=np.int64)

    def read(low: int, high: int) -> Stretch:
        mine = ts[(ts >= low) & (ts <= high)]
        return Stretch(Rows(np.zeros(len(mine), dtype=np.int64), mine), low, high, low <= ts[0])

    return read


def cut(windower: Windower, span: tuple[int, int], until: int, *times: int, **more: Any) -> Any:
    found = cut_range(windower, span, until, reader(*times), **more)
    early = [(int(start), int(end)) for start, end in zip(found.early.start, found.early.end, strict=True)]
    return [(int(s), int(e)) for s, e in zip(found.judged.start, found.judged.end, strict=True)], early


def test_closed_windows_that_touch_the_range_are_judged() -> None:
    times = (1, 2, 20, 22, 40, 60)
    assert cut(SessionWindower(5), (21, 45), 60, *times)[0] == [(20, 22), (40, 40)]
    assert cut(SessionWindower(5), (3, 19), 60, *times)[0] == []
    # at T = 45 the session of 40 may still go on
    assert cut(SessionWindower(5), (0, 100), 45, *times)[0] == [(1, 2), (20, 22)]


def test_open_windows_may_have_rows_where_max_delay_calculates_them() -> None:
    times = (1, 2, 20, 22)
    opened = [(1, 1), (20, 20)]
    assert cut(SessionWindower(5), (0, 100), 22, *times) == ([(1, 2)], opened)
    assert cut(SessionWindower(5), (0, 100), 22, *times, delayed=True) == ([(1, 2)], [*opened, (20, 22)])


def test_count_windows_begin_with_the_groups_first_row() -> None:
    assert cut(CountWindower(2, 2), (4, 9), 9, 1, 2, 3, 4, 5)[0] == [(3, 4)]


def test_ranges_that_meet_are_one() -> None:
    assert merged([(5, 9), (0, 2), (3, 4), (20, 30), (25, 26), (7, 1)]) == ((0, 9), (20, 30))


def test_the_first_definition_says_from_where_on_rows_count(kit: Any) -> None:
    spec = kit.stream()
    again = control.DefineStream(spec, {0: 99}, 1)
    other = control.DefineStream(kit.stream(2), {0: 50})
    told = [other, control.DefineStream(spec, {0: 7, 1: 3}), control.StopStream(1), again]
    assert judged_of(1, told) == Judged({0: 7, 1: 3})
    by_hand = [
        control.RecalculateStream(1, 5, 9),
        control.RecalculateStream(2, 0),
        control.RecalculateStream(1, 20),
    ]
    assert judged_of(1, [*told, *by_hand]).whole == ((5, 9), (20, RANGE))
    options = msgspec.structs.replace(spec.options, fill_history_first=-(1 << 63))
    filled = control.DefineStream(msgspec.structs.replace(spec, options=options), {0: 7})
    assert judged_of(1, [filled]).whole == ((-RANGE, RANGE),)
    assert judged_of(3, told) == Judged()


def test_event_type_does_not_concern_instants(kit: Any) -> None:
    more = {"query": "SELECT _twstart AS ts FROM %%trows", "output": Output("d", "o")}
    opening = msgspec.structs.replace(kit.stream(kinds=("WINDOW_OPEN",)), **more)
    assert "only at WINDOW_OPEN" in (refusal(opening) or "")
    assert refusal(msgspec.structs.replace(opening, trigger=Sliding(Duration(1, "s")))) is None
    assert refusal(msgspec.structs.replace(kit.stream(), **more)) is None
    virtual = msgspec.structs.replace(kit.METERS, virtual=True)
    assert "virtual" in (refusal(msgspec.structs.replace(kit.stream(), **more, source=Source(virtual))) or "")


def test_rows_are_compared_by_table_and_time() -> None:
    expected = {("a", 1, None): {"n": 1}, ("a", 2, None): {"n": 2}, ("b", 1, None): {"n": 3}}
    found = {
        ("a", 1, None): {"n": 1},
        ("b", 1, None): {"n": None},
        ("b", 9, None): {"n": 5},
        ("c", 1, None): {"n": 7},
    }
    assert [tuple(one) for one in differences(expected, found, {("c", 1, None)}, [N], TEXTS)] == [
        ("missing", "a", 2, None, '{"n":2}', None),
        ("different", "b", 1, "n", "3", None),
        ("extra", "b", 9, None, None, '{"n":5}'),
    ]
    assert list(differences(found, found, (), [N], TEXTS)) == []


def test_a_composite_key_is_named_with_the_column() -> None:
    key = Column("k", DataType("INT"), composite_key=True)
    expected = {("a", 1, 5): {"k": 5, "n": 1}, ("a", 1, 6): {"k": 6, "n": 1}}
    found = {("a", 1, 5): {"k": 5, "n": 2}}
    assert [tuple(one) for one in differences(expected, found, (), [key, N], TEXTS)] == [
        ("different", "a", 1, "n (k = 5)", "1", "2"), ("missing", "a", 1, None, '{"k":6,"n":1}', None),
    ]  # fmt: skip


def test_cells_are_written_as_what_they_are() -> None:
    cells = {"n": 1, "x": 0.5, "on": True, "at": 1000}
    assert TEXTS.row(cells, [N, X, ON, AT]) == '{"n":1,"x":0.5,"on":true,"at":"1970-01-01 00:00:01.000"}'
    assert (TEXTS.cell(True, ON), TEXTS.cell(None, N), TEXTS.cell(b"\x01", N)) == ("true", None, "01")


@pytest.mark.parametrize(
    ("type_", "one", "other", "equal"),
    [
        ("DOUBLE", 0.1 + 0.2, 0.3, True), ("DOUBLE", 1.0, 1.0001, False), ("FLOAT", 1.0, 1.000001, True),
        ("FLOAT", 1.0, 1.001, False), ("DOUBLE", 1.0, None, False), ("BIGINT", 3, 3, True),
        ("BIGINT", 3, 4, False), ("DOUBLE", 0.0, 1e-15, True),
    ],
)  # fmt: skip
def test_sums_in_another_order_are_the_same(type_: str, one: Any, other: Any, equal: bool) -> None:
    assert same(one, other, Column("x", DataType(type_))) is equal


def test_how_far_rows_lie_from_their_windows() -> None:
    assert farthest(10, 20, np.array([10, 15, 20])) == 0
    assert farthest(10, 20, np.array([5, 23])) == 5
    assert farthest(10, 20, np.array([], dtype=np.int64)) == 0
