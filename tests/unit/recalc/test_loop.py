"""The loops of calc-svc over a log in memory: answers in order, commits, what a repeated request gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from calc_svc.jobs.answers import Answers
from calc_svc.loops import recalc as recalc_loop
from calc_svc.loops.recalc import RecalcLoop
from calc_svc.loops.rounds import Intake
from calc_svc.store.delta import DamagedTable
from millrace_core.calc.waiting import Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import Duration
from millrace_core.plan import News, system_rows
from millrace_core.recalc.requests import LANES, Batch, batches, queued
from millrace_core.recalc.sending import Work
from millrace_core.trigger.types import Session
from millrace_core.wire import events, recalc, status, topics
from millrace_core.wire.topics import HANDOVER, RECALC, STATUS, TOPICS, TRIGGERS
from millrace_service import Life
from millrace_wal import DeadLetters, MemoryLog, Message, Record, replay

ALL = -(1 << 62)
LOGGER = structlog.get_logger("test")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def understood(records: list[Record]) -> list[tuple[Record, recalc.Request]]:
    return DeadLetters(MemoryLog(), None).understood(records, recalc.REQUESTS.read)


class Bench:
    """A deployment whose requests go through a log; one lane answers them."""

    def __init__(self, together: Any, group: str) -> None:
        self.together, self.group = together, group
        self.log = MemoryLog()
        self.log.ensure_topics(TOPICS)

    def ask(self) -> None:
        for request in self.together.requests:
            key = recalc.key(request.stream, request.slot)
            self.log.append([Message(RECALC.name, key, recalc.encode(request))])
        self.together.requests.clear()

    def loop(self) -> RecalcLoop:
        return RecalcLoop(self.log, self.together.answers, self.group, lambda partition: 1 << 60)

    def told(self) -> list[events.TriggerBatch]:
        """What came of requests: not from a slot."""
        found = [events.decode(record.value or b"") for record in replay(self.log, TRIGGERS.name)]
        return [batch for batch in found if batch.slot < 0]

    def handed(self) -> list[recalc.Handover]:
        return [recalc.decode_handover(record.value or b"") for record in replay(self.log, HANDOVER.name)]

    def left(self) -> list[Record]:
        """What a new start of the loop would read."""
        with self.log.subscribe(self.group, [RECALC.name]) as probe:
            return probe.poll(0)

    def committed(self) -> int:
        """How many requests the loop is done with."""
        with self.log.changed:
            return sum(self.log._groups[self.group].committed.values())

    def status(self) -> list[status.Recalculation]:
        found = [status.decode(record.value or b"") for record in replay(self.log, STATUS.name)]
        return [one for one in found if isinstance(one, status.Recalculation)]


@pytest.fixture
def sessions(kit: Any, deployment: Any, tmp_path: Path) -> Any:
    def make(**options: Any) -> Any:
        both = ("WINDOW_OPEN", "WINDOW_CLOSE")
        spec = kit.stream(kinds=both, notify=both)
        spec = msgspec.structs.replace(
            spec,
            trigger=Session(Duration(5, "a")),
            options=msgspec.structs.replace(spec.options, **options),
        )
        return deployment(tmp_path, spec)

    return make


def test_a_request_is_answered_once_and_again_after_a_crash_with_the_same_ids(sessions: Any) -> None:
    together = sessions()
    together.define()
    together.write("c1", [1, 3, 10, 12, 30])
    together.run()
    together.write("c1", [7])
    together.run()
    bench = Bench(together, "calc-recalc")
    for batch in together.cluster.triggers:
        bench.log.append([Message(TRIGGERS.name, b"1/0", events.encode(batch))])
    bench.ask()
    first = Life(bench.loop(), LOGGER)
    first.start()
    until(lambda: bool(bench.told()))
    first.stop()
    answer = bench.told()
    told = [(event.kind, event.start, event.end) for batch in answer for event in batch.events]
    assert told == [("INVALID", 10, 12), ("OPEN", 1, 1), ("CLOSE", 1, 12)]
    assert bench.log.subscribe("calc-recalc", [RECALC.name]).poll(0.1) == []
    (record,) = replay(bench.log, RECALC.name)
    (batch,) = batches(understood([record]), LANES["calc-recalc"])
    repeated = list(together.answers.answer(batch.requests, batch.place, Work()))
    assert [one.number for one in repeated] == [one.number for one in answer]
    told_again = [(event.id, event.kind) for one in repeated for event in one.events]
    assert told_again == [(event.id, event.kind) for one in answer for event in one.events]


def test_history_is_reported_and_ends_with_done_for_every_slot(sessions: Any) -> None:
    together = sessions(fill_history_first=ALL)
    together.write("c1", [1, 3, 20, 40])
    together.run()
    together.define()
    together.run()
    asked = len(together.requests)
    bench = Bench(together, "calc-history")
    bench.ask()
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: sum(one.done for one in bench.handed()) == asked)
    until(lambda: any(one.state == "Finished" for one in bench.status()))
    loop.stop()
    last = bench.status()[-1]
    assert (last.why, last.state, last.fraction, last.rows) == ("HISTORY", "Finished", 1.0, 4)
    catalog = together.catalog.catalog
    news = News(recalculations=bench.status()[-1:])
    (row,) = system_rows("ins_stream_recalculates", catalog, news).to_dicts()
    assert (row["stream_name"], row["progress"], row["rows_read"]) == ("s1", "100.0%", 4)
    assert row["start"] is None and row["end"] is None
    assert row["time_left"] == 0


def test_a_history_that_cannot_be_read_does_not_hold_the_live_rows_for_ever(sessions: Any) -> None:
    together = sessions(fill_history=ALL)
    together.write("c1", [1, 3])
    together.run()
    together.define()
    together.run()
    asked = len(together.requests)
    bench = Bench(together, "calc-history")
    bench.ask()
    together.catalog.apply(9, key_of(together.table), None)
    together.store.close(together.topic)
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: sum(one.done for one in bench.handed()) == asked)
    loop.stop()
    assert bench.status()[-1].state == "Failed"


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> None:
    """So many attempts to answer end with the error."""
    answer, errors = Answers.answer, [error] * times

    def flaky(*given: Any) -> Any:
        if errors:
            raise errors.pop()
        yield from answer(*given)

    monkeypatch.setattr(Answers, "answer", flaky)


def late_row(sessions: Any) -> tuple[Any, Bench]:
    """A request for what a late row has changed."""
    together = sessions()
    together.define()
    together.write("c1", [1, 3, 10, 12, 30])
    together.run()
    together.write("c1", [7])
    together.run()
    bench = Bench(together, "calc-recalc")
    bench.ask()
    return together, bench


def failures(bench: Bench) -> list[str]:
    found = [status.decode(record.value or b"") for record in replay(bench.log, STATUS.name)]
    return [one.message for one in found if isinstance(one, status.StreamFailure)]


def test_a_request_waits_for_files_that_are_damaged_until_they_are_put_right(
    sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalc_loop, "AGAIN_SECONDS", 0.01)
    together, bench = late_row(sessions)
    fail(monkeypatch, DamagedTable(together.table, Path("tables/1"), "no log"), times=5)
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: bool(bench.told()))
    until(lambda: bench.committed() == 1)
    loop.stop()
    assert failures(bench) == []


def test_a_request_that_is_given_up_is_shown(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = late_row(sessions)[1]
    fail(monkeypatch, ValueError("a bug"), times=1)
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: bench.committed() == 1)
    loop.stop()
    assert bench.told() == []
    assert failures(bench) == ["windows could not be cut again: ValueError: a bug"]


def test_a_lane_takes_what_is_its_own_and_passes_over_what_cannot_be_read() -> None:
    def record(offset: int, why: Any, stream: int = 1) -> Record:
        value = recalc.encode(recalc.Request(stream, 0, 0, 1, why, {}, 0))
        return Record(RECALC.name, 0, offset, 0, recalc.key(stream, 0), value)

    broken = Record(RECALC.name, 0, 3, 0, b"1/0", b"\xc1")
    records = [record(0, "CHANGE"), record(1, "HISTORY"), record(2, "CHANGE"), broken, record(4, "CHANGE", 2)]
    found = list(batches(understood(records), LANES["calc-recalc"]))
    assert [(one.requests[0].stream, len(one.requests), one.place) for one in found] == [
        (1, 2, (0, 2)), (2, 1, (0, 4)),
    ]  # fmt: skip


def test_an_answer_that_is_given_again_is_calculated_again_whatever_its_numbers_are() -> None:
    """Killed after a part of one answer to two requests; the first of them is answered by itself then."""
    group = events.Group(1, ("c1",), "c1")

    def batch(slot: int, number: int, start: int) -> Record:
        event = events.TriggerEvent(str(start), "CLOSE", "RECALC", group, start, start + 9, -1, 0)
        value = events.encode(events.TriggerBatch(1, 0, slot, number, {}, [event]))
        return Record(TRIGGERS.name, 0, number, 0, f"1/{slot}".encode(), value)

    def starts(*records: Record) -> list[int]:
        found = intake.take(records).streams.get(1, [])
        return [event.start for batch in found for event in batch.events]

    intake = Intake(DeadLetters(MemoryLog(), None))
    assert starts(batch(-1, 7 << 32, 10)) == [10]
    assert starts(batch(-1, 6 << 32, 20), batch(-1, 7 << 32, 30)) == [20, 30]
    assert starts(batch(0, 5, 40), batch(0, 5, 40), batch(0, 4, 50)) == [40]


def test_by_hand_means_every_row_that_was_there_though_no_slot_has_seen_it(sessions: Any) -> None:
    together = sessions()
    ends = {0: 0, 1: 0}
    together.answers.ends = lambda topic: ends if topic == together.topic else {}
    together.define()
    request = recalc.Request(together.spec.uid, 0, 0, 1, "MANUAL", {0: 2}, 0, [], (ALL, -ALL))
    ends[0] = 3  # rows that calc-svc has not read either, after a restart say
    uids = {together.topic: together.table.uid}
    assert together.answers.wanted([request]) == Wanted(wal={together.topic: {0: 3, 1: 0}}, uids=uids)
    by_change = msgspec.structs.replace(request, why="CHANGE")
    assert together.answers.wanted([by_change]) == Wanted(wal={together.topic: {0: 2}}, uids=uids)
    later = msgspec.structs.replace(by_change, seen={0: 1, 1: 4})
    assert together.answers.wanted([by_change, later]) == Wanted(
        wal={together.topic: {0: 2, 1: 4}}, uids=uids
    )


def test_by_hand_of_a_table_that_is_gone_waits_for_nothing(sessions: Any) -> None:
    together = sessions()
    together.define()

    def gone(topic: str) -> dict[int, int]:
        raise MillraceError(ErrorCode.UNAVAILABLE, f"{topic} does not exist")

    together.answers.ends = gone
    request = recalc.Request(together.spec.uid, 0, 0, 1, "MANUAL", {0: 2}, 0, [], (ALL, -ALL))
    together.catalog.apply(9, key_of(together.table), None)
    assert together.answers.wanted([request]) == Wanted()
    again = msgspec.structs.replace(together.table, uid=77)
    together.catalog.apply(10, key_of(again), encode(again))
    assert together.answers.wanted([request]) == Wanted()


class Late:
    """History of a stream whose catalog records calc-svc reads later than the requests."""

    def __init__(self, together: Any, *missing: bytes) -> None:
        self.together, self.bench = together, Bench(together, "calc-history")
        together.write("c1", [1, 3, 20, 40])
        together.run()
        together.define()
        together.run()
        self.asked = len(together.requests)
        view = together.catalog
        records = [*view.catalog.tables.values(), *view.catalog.children.values()]
        records += view.catalog.streams.values()
        self.late = [one for one in records if any(key_of(one).startswith(kind) for kind in missing)]
        for one in self.late:
            view.apply(view.position - 1, key_of(one), None)
        ends = {topics.CATALOG.name: {0: view.position + len(self.late)}}
        together.answers.ends = lambda topic: ends.get(topic, {})
        self.bench.ask()

    def read(self) -> None:
        view = self.together.catalog
        for one in self.late:
            view.apply(view.position, key_of(one), encode(one))
            if key_of(one).startswith(b"child"):
                self.together.stored.register(one)
        self.together.store.moved()

    def finished(self) -> list[int]:
        return [one.rows for one in self.bench.status() if one.state == "Finished"]

    def done(self) -> int:
        return sum(one.done for one in self.bench.handed())


@pytest.mark.parametrize("missing", [[b"stream"], [b"stream", b"child"], [b"stream", b"table"]])
def test_history_that_is_asked_for_before_the_catalog_is_read_waits_for_it(
    sessions: Any, missing: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalc_loop, "WAIT_SECONDS", 0.01)
    late = Late(sessions(fill_history_first=ALL), *missing)
    loop = Life(late.bench.loop(), LOGGER)
    loop.start()
    time.sleep(0.3)
    assert late.finished() == [] and late.done() == 0
    loop.stop()
    assert len(late.bench.left()) == late.asked
    loop = Life(late.bench.loop(), LOGGER)
    loop.start()
    time.sleep(0.1)
    late.read()
    until(lambda: late.done() == late.asked)
    until(lambda: bool(late.finished()))
    assert late.finished() == [4]
    loop.stop()


def test_a_request_waits_for_its_rows_however_long_and_no_other_stream_waits(
    sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAIT_SECONDS", "TELL_SECONDS"):
        monkeypatch.setattr(recalc_loop, name, 0.0)
    together = sessions(fill_history_first=ALL)
    together.write("c1", [1, 3, 20, 40])
    together.run()
    together.define()
    together.run()
    other = msgspec.structs.replace(together.spec, uid=2, name="s2")
    together.catalog.apply(50, *(part(StreamEntry(other, "Running", 0, 0)) for part in (key_of, encode)))
    asked = list(together.requests)
    behind = {partition: offset + 5 for partition, offset in together.stored.positions.items()}
    together.requests[:] = [msgspec.structs.replace(one, seen=behind) for one in asked]
    together.requests += [msgspec.structs.replace(one, stream=2) for one in asked]
    bench = Bench(together, "calc-history")
    bench.ask()
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: [one.stream for one in bench.handed() if one.done] == [2] * len(asked))
    until(lambda: any(one.message for one in bench.status()))
    (waits,) = {(one.stream, one.state, one.message.partition(" offset")[0]) for one in bench.status()
                if one.message}  # fmt: skip
    assert waits[:2] == (1, "Running")
    assert waits[2].startswith(f"waits until this is stored: {together.topic}/")
    loop.stop()
    # no commit has passed them
    assert {recalc.decode_request(one.value or b"").stream for one in bench.left()} >= {1}
    together.stored.advance(behind)
    loop = Life(bench.loop(), LOGGER)
    loop.start()
    until(lambda: sum(one.done and one.stream == 1 for one in bench.handed()) == len(asked))
    until(lambda: {one.stream for one in bench.status() if one.state == "Finished"} == {1, 2})
    until(lambda: bench.committed() == 2 * len(asked))
    loop.stop()
    assert not [one for one in bench.status() if one.state == "Failed"]


def test_what_waits_takes_in_no_request_that_comes_later(sessions: Any) -> None:
    """They would make it wait for ever newer rows."""

    def batch(offset: int, stream: int = 1) -> Batch:
        return Batch([recalc.Request(stream, 0, 0, 1, "CHANGE", {0: offset}, 0)], (0, offset), {0: offset})

    waiting = queued([], iter([batch(1)]))
    waiting[0].wanted = Wanted(catalog=1)
    waiting = queued(waiting, iter([batch(2), batch(3, 2)]))
    waiting = queued(waiting, iter([batch(4)]))
    found = [([one.seen[0] for one in each.batch.requests], each.batch.place, each.batch.begins)
             for each in waiting]  # fmt: skip
    assert found == [([1], (0, 1), {0: 1}), ([2, 4], (0, 4), {0: 2}), ([3], (0, 3), {0: 3})]
