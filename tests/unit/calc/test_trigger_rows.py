"""Stored rows as windows are cut from them: many parts of a group read at once, the same as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from calc_svc.jobs.recalc_rows import ROWS_PER_PART, TriggerRows
from calc_svc.store.delta import DeltaRows
from millrace_core.recalc.reach import Read
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import Interval
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part

from .test_trows import SECOND, Desk, desk, row

__all__ = ["desk"]
ALL = Group(0, (), None)


def rows_of(desk: Desk) -> TriggerRows:
    return TriggerRows(compiled(essence(desk.spec("SELECT 1", Interval(SECOND, SECOND)))), desk.stored)


def parts(*times: int) -> list[Part]:
    return [Part(ALL, ts, ts, 10_000) for ts in times]


def of_all(rows: TriggerRows) -> list[int]:
    return rows.groups(0, 1)[ALL]


def asked(rows: TriggerRows, some: Sequence[Part], monkeypatch: pytest.MonkeyPatch) -> tuple[Read, list[int]]:
    """What reads for these parts, and a number for each time that the store was asked."""
    views: list[int] = []
    view = type(rows.stored).view

    def counted(self: object, low: int, high: int) -> object:
        views.append(low)
        return view(self, low, high)  # type: ignore[arg-type]

    monkeypatch.setattr(type(rows.stored), "view", counted)
    return rows.reader_for(ALL, of_all(rows), some), views


def test_parts_that_lie_near_are_read_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("m1", 0, 1, *(row(ts) for ts in range(100, 400, 10)))
    desk.write("m2", 0, 2, *(row(ts) for ts in range(105, 400, 10)))
    rows = rows_of(desk)
    plain = rows.reader(ALL, of_all(rows))
    ranges = [(150, 170), (195, 200), (90, 100), (260, 260)]
    wanted = [plain(*one) for one in ranges]
    read, views = asked(rows, parts(150, 200, 260), monkeypatch)
    found = [read(*one) for one in ranges]
    assert [one.rows.ts.tolist() for one in found] == [one.rows.ts.tolist() for one in wanted]
    assert [(one.low, one.high, one.first) for one in found] == [(*r, r[0] <= 100) for r in ranges]
    assert len(views) == 1


def test_parts_among_many_other_rows_are_read_one_by_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("m1", 0, 1, *(row(ts) for ts in range(2 * ROWS_PER_PART + 1)))
    rows = rows_of(desk)
    read, views = asked(rows, parts(0, 2 * ROWS_PER_PART), monkeypatch)
    assert not views
    assert read(5, 6).rows.ts.tolist() == [5, 6]
    assert read(7, 8).rows.ts.tolist() == [7, 8]
    assert views == [5, 7]


@pytest.mark.parametrize(("times", "views_at_once"), [((150, 300), 0), ((250, 300), 1)])
def test_what_is_in_files_is_read_as_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, times: tuple[int, int], views_at_once: int
) -> None:
    desk.write("m1", 0, 1, *(row(ts) for ts in range(100, 400, 10)))
    desk.stored.flush()
    desk.stored.rows.evict(200)
    rows = rows_of(desk)
    assert rows.bounds() == (100, 390)
    read, views = asked(rows, parts(*times), monkeypatch)
    assert len(views) == views_at_once
    assert read(150, 170).rows.ts.tolist() == [150, 160, 170]
    assert read(190, 210).rows.ts.tolist() == [190, 200, 210]
    assert not read(210, 220).first


def test_the_bounds_of_what_is_in_memory_open_no_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chaos, seed 3: a third of the time of what was cut again went into opening files, once a part."""
    desk.write("m1", 0, 1, row(300), row(100))
    desk.stored.flush()
    desk.write("m1", 0, 2, row(50))
    rows = rows_of(desk)
    opened: list[object] = []
    monkeypatch.setattr(DeltaRows, "open", lambda self: opened.append(self))
    assert rows.bounds() == (50, 300)
    assert not opened
