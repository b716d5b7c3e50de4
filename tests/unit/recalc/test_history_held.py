"""Live rows that are held while history is read, and what is deleted or rewritten meanwhile: in the end they
say what they would have said had history been read at once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Condition, Duration
from millrace_core.trigger.stream.past import HeldChange
from millrace_core.trigger.stream.state import Life
from millrace_core.wire.operations import Delete

from ...conftest import examples
from .conftest import ALL, CUT_AGAIN, make, over, same_but_empty, truth

POSITIVE = msgspec.convert(over("gt", 0), Condition)
COLUMNS = {"v": "INT", "w": "INT"}
OLD = {2: 1, 5: 2, 20: 2}
"""What history has."""
Steps = list[tuple[int, Any, int]]
"""How far behind (or before) the newest row, what is written, and over how many ticks is deleted."""


def steps_of(values: list[Any]) -> st.SearchStrategy[Steps]:
    step = st.tuples(st.integers(-25, 12), st.sampled_from(values), st.integers(0, 8))
    return st.lists(step, min_size=3, max_size=12)


WHOLE = ["delete", None, -1, 1, 1, 2, 2, 3]
steps = steps_of(WHOLE)
parts = steps_of([*WHOLE, "unnamed", "unnamed"])


class Held:
    """A stream that fills history; history is answered before the step ``told``."""

    def __init__(self, deployment: Any, folder: str, spec: Any, some: Steps, told: int) -> None:
        self.world = deployment(Path(folder), spec, ("c1", "c2"))
        self.at_once = bool(spec.partition)
        self.table = dict(OLD)
        self.world.write("c1", [{"ts": ts, "v": v} for ts, v in OLD.items()])
        self.world.run()
        self.world.define()
        self.world.run()
        newest, oldest = max(OLD), 0 if self.at_once else max(OLD) + 1
        self.moments = [(dict(OLD), newest)]
        for number, (forward, value, length) in enumerate(some):
            if number == told:
                self.answer()
            ts = max(oldest, newest + forward)
            if value == "delete":
                self.world.cluster.operate("c1", Delete(ts, ts + length), self.world.table)
                self.table = {t: v for t, v in self.table.items() if not ts <= t <= ts + length}
            elif value == "unnamed":
                self.world.write("c1", [{"ts": ts, "w": 5}])
                self.table.setdefault(ts, None)
                newest = max(newest, ts)
            else:
                self.world.write("c1", [{"ts": ts, "v": value}])
                self.table[ts] = value
                newest = max(newest, ts)
            self.world.run()
            self.moments.append((dict(self.table), newest))
        if told >= len(some):
            self.answer()
        self.world.newest = newest

    def answer(self) -> None:
        """History alone: what changed is asked for and waits."""
        waiting = [one for one in self.world.requests if one.why != "HISTORY"]
        self.world.requests = [one for one in self.world.requests if one.why == "HISTORY"]
        while self.world.requests:
            self.world.answer_oldest(1)
        self.world.requests = waiting
        self.world.run()

    def live(self) -> list[tuple[Any, ...]]:
        """What live rows have told of, in order."""
        batches = self.world.cluster.triggers
        events = [event for batch in batches for event in batch.events if event.cause == "LIVE"]
        return [(event.group.id, event.kind, event.start, event.end, event.rownum) for event in events]

    def close_all(self) -> int:
        """As :meth:`Deployment.close_all`."""
        until: int = self.world.close_all(self.table)
        self.moments.append((dict(self.table), until))
        return until

    def closed(self) -> set[tuple[int, int]]:
        """Start and end of every window that was ever told of as closed."""
        events = self.world.events
        return {(one.start, one.end) for one in events if one.kind == "CLOSE" and one.group.table == "c1"}

    def asked(self) -> set[int]:
        """The times of the windows that are to be cut again."""
        parts = [part for one in self.world._asked if one.why != "HISTORY" for part in one.parts]
        return {ts for part in parts for ts in range(max(part.first, 0), min(part.last, 500) + 1)}


def held(kit: Any, name: str, watermark: int, filters: bool, first: bool) -> Any:
    fill = {"fill_history_first" if first else "fill_history": ALL}
    more = {"pre_filter": POSITIVE} if filters else {}
    return make(kit, name, watermark=watermark, delete_recalc=True, **fill, **more)


def left(table: dict[int, Any], filters: bool) -> dict[int, Any]:
    """The rows that PRE_FILTER lets pass, if there is one."""
    return {ts: v for ts, v in table.items() if not filters or (v is not None and v > 0)}


# a row that late rows between have made the second of its window is deleted
NEVER_FIRST: Steps = [(10, 1, 0), (10, 1, 0), (10, 2, 0), (-15, 1, 0), (-20, "delete", 0)]

# rows of history are deleted, and one that is held and would have gone on with their window
HISTORY_TOO: Steps = [(1, 2, 0), (1, 3, 0), (-17, "delete", 16)]

# PRE_FILTER leaves out a new version of a row that is held
LEFT_OUT: Steps = [(1, 1, 0), (0, -1, 0), (9, 2, 0)]


@pytest.mark.parametrize(
    ("name", "partition"),
    [*((name, ("tbname",)) for name in CUT_AGAIN), *((name, ()) for name in ("overlapping", "session"))],
)
@settings(max_examples=examples(20, cases=True))
@given(
    some=steps, told=st.integers(1, 12), watermark=st.sampled_from([0, 6]), filters=st.booleans(),
    first=st.booleans(),
)  # fmt: skip
@example(some=NEVER_FIRST, told=9, watermark=0, filters=False, first=False)
@example(some=LEFT_OUT, told=9, watermark=0, filters=True, first=False)
@example(some=HISTORY_TOO, told=9, watermark=0, filters=False, first=False)
def test_it_does_not_show_when_history_was_read(
    kit: Any, deployment: Any, name: str, partition: tuple[str, ...], some: Steps, told: int, watermark: int,
    filters: bool, first: bool,
) -> None:  # fmt: skip
    spec = msgspec.structs.replace(held(kit, name, watermark, filters, first), partition=partition)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        soon = Held(deployment, folder, spec, some, 0)
        late = Held(deployment, other, spec, some, told)
        # the slot of a table whose rows are sent on does not know how far their group is: live, a row that is
        # left out may have rewritten another, and more is asked for
        if not partition and not filters:
            assert late.live() == soon.live()
            assert late.asked() >= soon.asked()  # rows that come together may reach further
        until = late.close_all() - watermark
        same_but_empty(name, late.world.windows(), truth(spec, left(late.table, filters), until))
        if partition and name not in ("interval", "overlapping"):
            moments = [
                truth(spec, left(table, filters), newest - watermark) for table, newest in late.moments
            ]
            assert late.closed() <= {(start, end) for one in moments for start, (end, _) in one.items()}


def test_a_window_without_a_row_that_was_still_there_never_closes(kit: Any, deployment: Any) -> None:
    """As in a chaos run (seed 37): the deleted row was taken out of what was held at once, so the next one
    began a window. A late row, held as well, made that window begin elsewhere, and its result stayed."""
    with tempfile.TemporaryDirectory() as folder:
        late = Held(deployment, folder, held(kit, "state", 0, False, False), NEVER_FIRST, 9)
        closed = {start for _, kind, start, _, _ in late.live() if kind == "CLOSE"}
        assert closed == {5, 35}
        late.world.answer()
        assert late.world.windows().keys() == {2, 5, 35}


def test_history_is_not_as_of_before_a_delete_that_is_held(kit: Any, deployment: Any) -> None:
    """As in a chaos run (seed 34): history was read when the delete had already taken its rows; the held rows
    were evaluated as of before the delete. So the one that it deletes as well made a window of its own."""
    with tempfile.TemporaryDirectory() as folder:
        late = Held(deployment, folder, held(kit, "state", 0, False, False), HISTORY_TOO, 9)
        late.close_all()
        assert late.world.windows().keys() == {2, 22, 62, 63, 64, 65}
        assert 21 not in {start for start, _ in late.closed()}


# a part of a row that history has, and one of a row that is held; neither says what the trigger reads
PARTS: Steps = [(1, 2, 0), (-16, "unnamed", 0), (16, "unnamed", 0), (1, 2, 0), (5, 3, 0)]


@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(20, cases=True))
@given(some=parts, told=st.integers(1, 12), watermark=st.sampled_from([0, 6]), filters=st.booleans())
@example(some=PARTS, told=9, watermark=0, filters=True)
@example(some=PARTS, told=9, watermark=6, filters=False)
def test_parts_of_rows_are_as_they_are_stored(
    kit: Any, deployment: Any, name: str, some: Steps, told: int, watermark: int, filters: bool
) -> None:
    spec = held(kit, name, watermark, filters, False)
    table = msgspec.structs.replace(
        spec.source.table, columns=kit.stream(columns=COLUMNS).source.table.columns
    )
    spec = msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, table=table))
    with tempfile.TemporaryDirectory() as folder:
        late = Held(deployment, folder, spec, some, told)
        until = late.close_all() - watermark
        same_but_empty(name, late.world.windows(), truth(spec, left(late.table, filters), until))


def test_a_row_that_was_too_old_when_it_came_stays_so(kit: Any, deployment: Any) -> None:
    """It would not be, in order of time."""
    spec = make(kit, "session", fill_history=ALL, expired_time=Duration(30, "a"))
    some: Steps = [(10, 1, 0), (70, 1, 0), (-65, 1, 0)]
    with tempfile.TemporaryDirectory() as folder:
        late = Held(deployment, folder, spec, some, 9)
        assert late.world.cluster.totals()["expired"] == 1
        assert {start for _, kind, start, _, _ in late.live() if kind == "OPEN"} >= {30, 100}
        assert 35 not in {start for _, _, start, _, _ in late.live()}


def test_changes_of_a_state_that_did_not_keep_their_order_are_kept() -> None:
    life = Life(b"", 0, {}, lost=[(b"c1", 3, 4)], replaced=[(7, 5)])
    kept = msgspec.convert(msgspec.to_builtins(life), Life)
    assert kept.changed == [HeldChange(None, 3, 4, b"c1"), HeldChange(7, 5, 5, rewritten=True)]
    assert not kept.lost and not kept.replaced
    older = [*msgspec.to_builtins(Life(b"", 0, {})), []]
    older[Life.__struct_fields__.index("changed")] = [[7, 1, 2]]
    assert msgspec.convert(older, Life).changed == [HeldChange(7, 1, 2)]
