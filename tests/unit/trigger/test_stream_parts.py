"""The parts of a stream, each without the others: routes, telling, judging, changes, history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from millrace_core.model.stream import Duration, Emission
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.watermark import Arrivals
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.stream import emission, essence
from millrace_core.trigger.stream.changes import Changes
from millrace_core.trigger.stream.history import History
from millrace_core.trigger.stream.judging import Judging
from millrace_core.trigger.stream.past import Gone, HeldChange
from millrace_core.trigger.stream.routes import Routes
from millrace_core.trigger.stream.state import Life, StreamState
from millrace_core.trigger.stream.telling import Telling
from millrace_core.trigger.types.occurrences import CLOSE, CORRECT, HISTORY, LIVE, REDO, RETRACT, Occurrences
from millrace_core.wire import control, events, recalc, regroup
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Handover, Past
from millrace_core.wire.topics import RECALC, REGROUP, TRIGGERS, wal_topic

METERS = wal_topic("d", "meters")
ALL = -(1 << 62)


def kept(
    kit: Any, groups: int = 1, partition: tuple[str, ...] = ("tbname",), emission: Emission | None = None,
    **options: Any,
) -> StreamState:  # fmt: skip
    """What a stream of windows of ten keeps, with groups that have seen no row."""
    spec = kit.stream(1)
    spec = msgspec.structs.replace(
        spec, partition=partition, options=msgspec.structs.replace(spec.options, **options),
        emission=emission or spec.emission,
    )  # fmt: skip
    state = StreamState(Life(essence(spec), 0, {0: 3}), 0)
    for number in range(groups):
        name = b"c%d" % number
        handle: Any = name if partition == ("tbname",) else number
        table = name if partition == ("tbname",) else None
        state.groups.add(handle, number, (number,), table)
    state.grow()
    return state


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def arrived(*rows: tuple[int, int]) -> tuple[Arrivals, Any]:
    """Rows (group, ts), each written at its time."""
    return Arrivals(ints(*(g for g, _ in rows)), ints(*(ts for _, ts in rows))), ints(*(ts for _, ts in rows))


class Said:
    """In place of :class:`Telling`: notes what is told."""

    def __init__(self) -> None:
        self.cause = LIVE
        self.told: list[tuple[int, int, int, int]] = []
        self.asked: list[tuple[Any, ...]] = []

    def tell(self, found: Occurrences, written: Any, seen: Any, log: Any = None) -> Iterator[Any]:
        rows = zip(*(a.tolist() for a in (found.kind, found.group, found.start, found.end)), strict=True)
        self.told += rows
        yield from ()

    @property
    def closed(self) -> list[tuple[int, int, int, int]]:
        return [one for one in self.told if one[0] == CLOSE]

    def request(self, why: str, *rest: Any) -> Any:
        self.asked.append((why, *rest))
        return recalc.Request(1, 0, 0, 1, why, {}, 0)  # type: ignore[arg-type]

    def ask(self, request: recalc.Request) -> Any:
        return RECALC.name, b"", recalc.encode(request)


class Judged:
    """In place of :class:`Judging`: notes what it is to judge, and which groups changed without a row."""

    def __init__(self, telling: Any) -> None:
        self.telling, self.expires = telling, True
        self.judged: list[tuple[list[int], int, bool]] = []
        self.followed: list[list[int]] = []

    def judge(self, rows: Arrivals, written: Any, seen: Any) -> Iterator[Any]:
        self.judged.append((rows.ts.tolist(), self.telling.cause, self.expires))
        yield from ()

    def lose(self, place: int, spans: Any, found: Any, written: int) -> Any:
        self.followed.append([place])
        return found

    def open_again(self, places: list[int], written: Any, seen: Any) -> Iterator[Any]:
        self.followed.append(places)
        yield from ()


class Changed:
    """In place of :class:`Changes`: notes what it is to apply, and how often rows had been judged before."""

    def __init__(self, judging: Judged) -> None:
        self.judging = judging
        self.applied: list[tuple[int, list[Gone]]] = []

    def apply(self, gone: Any, written: int, seen: Any) -> Iterator[Any]:
        if gone:
            self.applied.append((len(self.judging.judged), list(gone)))
        yield from ()

    def reach(self, written: int, seen: Any) -> Iterator[Any]:
        yield from ()


# ---------------------------------------------------------------------- routes


def test_messages_behind_the_beginning_are_the_streams(kit: Any) -> None:
    messages = Messages.of([(METERS, 0, offset, 0, b"c0", b"[]") for offset in (2, 3, 4)])
    assert Routes(kept(kit)).wants(messages).tolist() == [False, True, True]


def test_what_is_sent_on_is_numbered_and_what_came_before_is_passed_over(kit: Any) -> None:
    state = kept(kit, partition=())
    routes = Routes(state)
    state.passing.add(b"c7", 5, (1,), None)
    sent = [routes.send(state.passing.get(0), b"c7", {0: 9}, 4, ints(8, 2).tobytes()) for _ in range(2)]
    assert [topic for topic, _, _ in sent] == [REGROUP.name] * 2
    received = [(0, regroup.MESSAGES.read(key, value)) for _, key, value in sent]
    assert [message.number for _, message in received] == [1, 2]
    rows, written = routes.rows_of([received[0], received[0]]) or (None, None)
    assert rows is not None and rows.ts.tolist() == [2, 8] and written is not None
    assert state.life.seen == {0: 9}
    assert list(routes.unseen(received)) == [received[1][1]]
    assert routes.rows_of(received) is None


def test_rows_of_an_epoch_that_has_passed_are_none(kit: Any) -> None:
    state = kept(kit, partition=())
    routes = Routes(state)
    _, key, value = routes.send(Group(5, (1,), None), b"c7", {}, 4, ints(8).tobytes())
    state.resume({0: 3}, epoch=1)
    assert routes.rows_of([(0, regroup.MESSAGES.read(key, value))]) is None


# ---------------------------------------------------------------------- telling


def test_events_are_told_in_order_and_what_must_be_cut_again_is_asked_for(kit: Any) -> None:
    state = kept(kit, groups=2)
    state.clock.singles["newest"][:] = 50
    kinds = ints(CLOSE, REDO, CLOSE)
    found = Occurrences.of(ints(0, 1, 1), ints(0, 0, 1), kinds, ints(0, 10, 20), ints(10, 19, 30), -1)
    request, told = list(Telling(state).tell(found, ints(5, 6), {0: 4}))
    assert request[0] == RECALC.name
    (part,) = recalc.decode_request(request[2]).parts
    assert (part.group.id, part.first, part.last, part.until) == (1, 10, 19, 50)
    assert (told[0], told[1]) == (TRIGGERS.name, b"1/0")
    batch = events.decode(told[2])
    assert (batch.number, batch.seen) == (1, {0: 4})
    assert [(e.group.id, e.kind, e.start, e.cause) for e in batch.events] == [
        (0, "CLOSE", 0, "LIVE"), (1, "CLOSE", 20, "LIVE"),
    ]  # fmt: skip
    assert state.life.totals["events_sent"] == 2


def test_what_history_makes_happen_is_told_as_history(kit: Any) -> None:
    telling = Telling(kept(kit))
    telling.cause = HISTORY
    ((_, _, value),) = telling.tell(
        Occurrences.of(ints(0), ints(0), CLOSE, ints(0), ints(10), 1), ints(5), {}
    )
    assert [event.cause for event in events.decode(value).events] == ["HISTORY"]


# ---------------------------------------------------------------------- judging


def test_rows_move_the_clock_and_close_windows(kit: Any) -> None:
    state, telling = kept(kit, groups=2), Said()
    judging: Any = Judging(state, telling)  # type: ignore[arg-type]
    list(judging.judge(*arrived((0, 1), (0, 12), (1, 5)), {}))
    assert telling.closed == [(CLOSE, 0, 0, 10)]
    assert state.until.tolist() == [12, 5]
    assert state.life.totals["rows_used"] == 3


@pytest.mark.parametrize(("expires", "dropped"), [(True, 1), (False, 0)])
def test_only_rows_that_expire_are_too_old(kit: Any, expires: bool, dropped: int) -> None:
    state = kept(kit, expired_time=Duration(30, "a"))
    judging: Any = Judging(state, Said())  # type: ignore[arg-type]
    judging.expires = expires
    list(judging.judge(*arrived((0, 100)), {}))
    list(judging.judge(*arrived((0, 20)), {}))
    assert state.life.totals.get("expired", 0) == dropped


def test_open_windows_are_due_by_max_delay(kit: Any) -> None:
    spec = kit.stream(1, max_delay=20)
    state, telling = StreamState(Life(essence(spec), 0, {}), 0), Said()
    state.groups.add(b"c0", 0, ("c0",), b"c0")
    judging: Any = Judging(state, telling)  # type: ignore[arg-type]
    list(judging.judge(*arrived((0, 1)), {}))
    list(judging.on_tick(control.Tick(judging.due - 1, 0, {}), {}))
    assert telling.closed == []
    list(judging.on_tick(control.Tick(judging.due, 0, {}), {}))
    assert telling.closed == [(CLOSE, 0, 0, 10)]


# ---------------------------------------------------------------------- changes


def changes(state: StreamState) -> tuple[Changes, Said, Judged]:
    telling = Said()
    judging = Judged(telling)
    found: Any = Changes(state, telling, judging, Routes(state))  # type: ignore[arg-type]
    return found, telling, judging


def judged(state: StreamState, *rows: tuple[int, int]) -> None:
    list(Judging(state, Said()).judge(*arrived(*rows), {}))  # type: ignore[arg-type]


def test_a_delete_behind_t_has_its_windows_cut_again(kit: Any) -> None:
    state = kept(kit)
    judged(state, (0, 1), (0, 12), (0, 25))
    found, telling, judging = changes(state)
    list(found.delete_in(0, (11, 13), 7, {}))
    assert telling.told == [(REDO, 0, 11, 13)]
    assert judging.followed == [[0]]


def test_a_delete_of_a_group_without_rows_means_nothing(kit: Any) -> None:
    found, telling, _ = changes(kept(kit))
    list(found.delete_in(0, (11, 13), 7, {}))
    assert telling.told == []


def test_a_delete_while_rows_are_held_is_noted(kit: Any) -> None:
    state = kept(kit)
    judged(state, (0, 25))
    state.life.holding = True
    found, telling, _ = changes(state)
    list(found.delete_in(0, (11, 13), 7, {}))
    assert (telling.told, state.life.changed) == ([], [HeldChange(0, 11, 13)])


def test_a_delete_that_t_has_not_reached_waits_for_it(kit: Any) -> None:
    """In a group of several tables, where the rows that wait for T are not known by their table."""
    state = kept(kit, partition=(), watermark=Duration(10, "a"))
    judged(state, (0, 1), (0, 25))
    found, telling, _ = changes(state)
    list(found.delete_in(0, (11, 20), 7, {}))
    assert telling.told == [(REDO, 0, 11, 15)] and state.life.awaited == [(0, 16, 20)]
    judged(state, (0, 40))
    telling.told.clear()
    list(found.reach(8, {}))
    assert telling.told == [(REDO, 0, 16, 20)] and not state.waits


@pytest.mark.parametrize(("ts", "unknown"), [(70, True), (69, False)])
def test_a_row_that_is_not_named_whole_is_asked_for_unless_it_has_expired(
    kit: Any, ts: int, unknown: bool
) -> None:
    state = kept(kit, expired_time=Duration(30, "a"))
    judged(state, (0, 100))
    found, _, _ = changes(state)
    assert found._loses(0, ts, True, 100) is None
    assert state.life.unknown == ([(0, ts)] if unknown else [])


@pytest.mark.parametrize(
    ("rewritten", "ts", "how"), [("corrected", 70, CORRECT), ("corrected", 69, None), ("counted", 70, None)]
)
def test_what_a_closed_window_has_lost_corrects_it_where_late_rows_count_in_open_ones_alone(
    kit: Any, rewritten: Any, ts: int, how: int | None
) -> None:
    state = kept(kit, expired_time=Duration(30, "a"), emission=Emission(late="dropped", rewritten=rewritten))
    judged(state, (0, 100))
    found, _, _ = changes(state)
    assert found._loses(0, ts, False, 100) == how
    assert state.life.totals["expired"] == 1


# ---------------------------------------------------------------------- history


def history(state: StreamState) -> tuple[History, Said, Judged, Changed]:
    telling = Said()
    judging = Judged(telling)
    changed = Changed(judging)
    found: Any = History(state, telling, judging, changed)  # type: ignore[arg-type]
    return found, telling, judging, changed


def test_without_history_live_rows_are_judged_at_once(kit: Any) -> None:
    found, telling, judging, _ = history(kept(kit))
    found.begin(4, 5)
    list(found.take(*arrived((0, 1)), {}))
    assert (found.take_outgoing(), telling.asked) == ([], [])
    assert judging.judged == [([1], LIVE, True)]


@pytest.mark.parametrize("in_order", [False, True])
def test_live_rows_are_held_until_history_has_been_told(kit: Any, in_order: bool) -> None:
    state = kept(kit, fill_history=ALL, ignore_disorder=in_order)
    found, telling, judging, changed = history(state)
    found.begin(4, 5)
    assert [asked[0] for asked in telling.asked] == ["HISTORY"] and len(found.take_outgoing()) == 1
    list(found.take(*arrived((0, 50)), {}))
    assert judging.judged == [] and state.life.holding
    state.life.changed.append(HeldChange(0, 7, 9))
    list(found.take(*arrived((0, 60)), {}))
    state.life.changed.append(HeldChange(0, 60, 70))
    list(found.take(*arrived((0, 70), (0, 55)), {}))
    past = Past(Group(0, (0,), "c0"), [1, 2], {}, 2)
    list(found.take_past(Handover(1, 0, 0, [past]), 9, {}))
    assert judging.judged == [([1, 2], HISTORY, False)]
    list(found.take_past(Handover(1, 0, 0, [past], done=True), 9, {}))
    assert judging.judged[1] == ([], HISTORY, False) and not state.life.holding
    applied = [
        (behind, [(one.place, one.first, one.last) for one in gone]) for behind, gone in changed.applied
    ]
    if in_order:
        assert [rows for rows, *_ in judging.judged[2:]] == [[50], [60], [70, 55]]
        assert applied == [(3, [(0, 7, 9)]), (4, [(0, 60, 70)])]
    else:
        assert judging.judged[2:] == [([50, 55, 70], LIVE, True)]
        assert applied == [(2, [(0, 7, 9), (0, 60, 70)])]


def test_a_handover_of_an_epoch_that_has_passed_is_passed_over(kit: Any) -> None:
    state = kept(kit, fill_history=ALL)
    found, _, judging, _ = history(state)
    found.begin(4, 5)
    state.resume({0: 3}, epoch=1)
    list(found.take_past(Handover(1, 0, 0, done=True), 9, {}))
    assert judging.judged == [] and state.life.holding


def test_what_was_written_during_a_stop_is_asked_for(kit: Any) -> None:
    state = kept(kit, fill_history=ALL)
    found, telling, _, _ = history(state)
    found.stop({0: 8}, {}, {})
    assert (state.life.running, state.life.stopped_at) == (False, {0: 8})
    state.resume({0: 12}, epoch=1)
    list(found.catch_up(True, {}, 6, Family()))
    assert [asked[0] for asked in telling.asked] == ["UNTREATED"]
    (sent,) = found.take_outgoing()
    assert recalc.decode_request(sent[2]).written == {0: (8, 12)}


def test_by_hand_each_group_is_asked_for_up_to_its_t(kit: Any) -> None:
    state = kept(kit, groups=3)
    judged(state, (0, 5), (1, 30))
    found, telling, _, _ = history(state)
    assert len(list(found.recalculate(0, 20, {}, 6))) == 1
    ((why, parts, *_),) = telling.asked
    assert why == "MANUAL"
    assert [(part.group.id, part.first, part.last, part.until) for part in parts] == [
        (0, 0, 5, 5),
        (1, 0, 20, 30),
    ]


@pytest.mark.parametrize(("obsolete", "told"), [("kept", False), ("retracted", True)])
def test_only_a_stream_whose_obsolete_results_go_tells_of_them(kit: Any, obsolete: Any, told: bool) -> None:
    spec = msgspec.structs.replace(kit.stream(), emission=Emission(obsolete=obsolete))
    assert (RETRACT in emission.Emission.of(spec).kinds) is told


def test_nothing_is_asked_of_unknown_rows_until_what_was_written_during_a_stop_is_told(kit: Any) -> None:
    """The row does not name the state: only the stored rows know it, and live rows are held meanwhile."""
    cluster = kit.Cluster(slots=1)
    spec = kit.stream(trigger={"State": {"column": "v"}}, columns={"v": "INT", "w": "INT"})
    options = msgspec.structs.replace(spec.options, fill_history=0)
    cluster.define(msgspec.structs.replace(spec, options=options))
    cluster.write("c1", [[1, 1], [5, 2], [20, 3]])
    cluster.run()
    cluster.control(control.StopStream(1))
    cluster.write("c1", [[30, 3]])
    cluster.run()
    cluster.control(control.StartStream(1, {0: cluster.ends[METERS]}, 1, untreated=True))
    cluster.run()
    assert [one.why for one in cluster.asked] == ["UNTREATED"]
    cluster.write("c1", [{"ts": 5, "w": 7}])
    cluster.run()
    assert [one.why for one in cluster.asked] == ["UNTREATED"]
