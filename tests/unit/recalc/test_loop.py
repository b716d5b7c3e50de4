"""The loops of calc-svc over a log in memory: answers in order, commits, what a repeated request gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.loop import Intake
from calc_svc.recalc import Work
from calc_svc.recalc_loop import LANES, RecalcLoop, batches
from millrace_core.catalog import key_of
from millrace_core.errors import MillraceError
from millrace_core.model.stream import Duration, Session
from millrace_core.plan import News, system_rows
from millrace_core.wire import events, recalc, status
from millrace_core.wire.topics import HANDOVER, RECALC, STATUS, TOPICS, TRIGGERS
from millrace_wal import MemoryLog, Message, Record, replay

ALL = -(1 << 62)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


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
    first = bench.loop()
    first.start()
    until(lambda: bool(bench.told()))
    first.stop()
    answer = bench.told()
    told = [(event.kind, event.start, event.end) for batch in answer for event in batch.events]
    assert told == [("INVALID", 10, 12), ("OPEN", 1, 1), ("CLOSE", 1, 12)]
    assert bench.log.subscribe("calc-recalc", [RECALC.name]).poll(0.1) == []
    (record,) = replay(bench.log, RECALC.name)
    (batch,) = batches([record], LANES["calc-recalc"])
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
    loop = bench.loop()
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
    loop = bench.loop()
    loop.start()
    until(lambda: sum(one.done for one in bench.handed()) == asked)
    loop.stop()
    assert bench.status()[-1].state == "Failed"


def test_a_lane_takes_what_is_its_own_and_passes_over_what_cannot_be_read() -> None:
    def record(offset: int, why: Any, stream: int = 1) -> Record:
        value = recalc.encode(recalc.Request(stream, 0, 0, 1, why, {}, 0))
        return Record(RECALC.name, 0, offset, 0, b"k", value)

    broken = Record(RECALC.name, 0, 3, 0, b"k", b"\xc1")
    records = [record(0, "CHANGE"), record(1, "HISTORY"), record(2, "CHANGE"), broken, record(4, "CHANGE", 2)]
    found = list(batches(records, LANES["calc-recalc"]))
    assert [(one.requests[0].stream, len(one.requests), one.place) for one in found] == [
        (1, 2, (0, 2)), (2, 1, (0, 4)),
    ]  # fmt: skip


def test_an_answer_that_is_given_again_is_calculated_again_whatever_its_numbers_are() -> None:
    """Killed after a part of one answer to two requests; the first of them is answered by itself then."""
    group = events.Group(1, ("c1",), "c1")

    def batch(slot: int, number: int, start: int) -> Record:
        event = events.TriggerEvent(str(start), "CLOSE", "RECALC", group, start, start + 9, -1, 0)
        value = events.encode(events.TriggerBatch(1, 0, slot, number, {}, [event]))
        return Record(TRIGGERS.name, 0, number, 0, b"1/0", value)

    def starts(*records: Record) -> list[int]:
        found = intake.take(records).streams.get(1, [])
        return [event.start for batch in found for event in batch.events]

    intake = Intake()
    assert starts(batch(-1, 7 << 32, 10)) == [10]
    assert starts(batch(-1, 6 << 32, 20), batch(-1, 7 << 32, 30)) == [20, 30]
    assert starts(batch(0, 5, 40), batch(0, 5, 40), batch(0, 4, 50)) == [40]


def test_by_hand_means_every_row_that_was_there_though_no_slot_has_seen_it(
    sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.recalc.SEEN_SECONDS", 0.05)
    together = sessions()
    ends = {0: 0, 1: 0}
    together.answers.ends = lambda topic: ends if topic == together.topic else {}
    together.define()
    request = recalc.Request(together.spec.uid, 0, 0, 1, "MANUAL", {}, 0, [], (ALL, -ALL))
    assert list(together.answers.answer([request], (0, 1), Work())) == []
    ends[0] = 3  # rows that calc-svc has not read either, after a restart say
    with pytest.raises(MillraceError, match="offset 3 "):
        list(together.answers.answer([request], (0, 1), Work()))
    by_change = msgspec.structs.replace(request, why="CHANGE")
    assert list(together.answers.answer([by_change], (0, 1), Work())) == []
