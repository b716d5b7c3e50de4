"""A recalculation loop over a log that fails: what is committed has been answered, whole."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc_svc.jobs.answers import Later
from calc_svc.loops import recalc as recalc_loop
from calc_svc.loops.recalc import RecalcLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.recalc.requests import LANES
from millrace_core.recalc.sending import Output, Work
from millrace_core.recalc.told import Told
from millrace_core.wire import events, recalc
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.recalc import Handover, Request, Why
from millrace_core.wire.topics import HANDOVER, RECALC, TOPICS, TRIGGERS
from millrace_service.life import Work as Lived
from millrace_wal import MemoryLog, Message, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault

from ...conftest import examples
from ...works import Steps

NONE, BEFORE, AFTER, HALF = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF
KILLED, ENDED = InjectedFault.KILLED_AFTER, InjectedFault.ENDED
STREAMS = (7, 8)
EVENTS = 3
"""Messages that answer one request."""


class Answers:
    """In the place of what reads the store: each request is answered by some events, each in a message, then
    history's by word that all has been told. ``behind``: the streams whose rows have not come."""

    def __init__(self, behind: set[int]) -> None:
        self.catalog, self.store = CatalogView(), self
        self.told = Told(self.catalog)
        self.behind = behind

    def definitions(self) -> Wanted:
        return Wanted()

    def wanted(self, requests: Sequence[Request], later: Iterable[Request] = ()) -> Wanted:
        list(later)  # reading on must not disturb
        return Wanted(opened=str(requests[0].stream))

    def missing(self, wanted: Wanted) -> str | None:
        return "rows" if wanted.opened and int(wanted.opened) in self.behind else None

    def reach(self, wanted: Wanted, timeout: float) -> None:
        if (missing := self.missing(wanted)) is not None:
            raise Behind(wanted, missing, timeout)

    def answer(
        self, requests: Sequence[Request], place: tuple[int, int], work: Work, later: Later = tuple
    ) -> Iterator[Output]:
        for request in requests:
            for number in range(EVENTS):
                at = request.localtime
                event = TriggerEvent(
                    f"{request.stream}-{at}-{number}", "CLOSE", "RECALC", Group(0, (), None), at, at, 0, at
                )
                yield TriggerBatch(
                    request.stream, request.epoch, -1 - request.slot, place[1], {}, [event]
                )  # fmt: skip
        list(later())
        for request in requests:
            if request.why in LANES["calc-history"]:
                yield Handover(request.stream, request.epoch, request.slot, done=True)


class Lane:
    """One lane without its thread."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.log = FlakyLog(MemoryLog(), on_commit=self.committed)
        self.log.log.ensure_topics(TOPICS)
        self.behind: set[int] = set()
        self.asked = 0
        self.reached: dict[int, int] = {}
        self.steps = Steps(self.make)

    def make(self) -> Lived:
        answers = Answers(self.behind)
        loop = RecalcLoop(self.log, answers, self.group, lambda partition: 1 << 60)  # type: ignore[arg-type]

        class Passing(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                return self.is_set()

        loop.stopping = Passing()
        return loop

    def ask(self, stream: int, why: Why) -> None:
        request = Request(stream, 0, self.asked % 2, 2, why, {}, self.asked, rest=(0, 10))
        self.asked += 1
        key = recalc.key(stream, request.slot)
        self.log.log.append([Message(RECALC.name, key, recalc.encode(request))])

    def answered(self) -> tuple[set[str], set[tuple[int, int]]]:
        """The ids of all events, and (stream, slot) of what was told to have been answered whole."""
        told = (events.decode(record.value or b"") for record in replay(self.log.log, TRIGGERS.name))
        done = (recalc.decode_handover(record.value or b"") for record in replay(self.log.log, HANDOVER.name))
        return {event.id for batch in told for event in batch.events}, {(o.stream, o.slot) for o in done}

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        ids, handed = self.answered()
        for (topic, partition), offset in offsets.items():
            self.reached[partition] = max(self.reached.get(partition, 0), offset)
            for record in self.log.log.reader({topic: {partition: 0}}).poll(0)[:offset]:
                request = recalc.REQUESTS.read(record.key, record.value)
                if request.why in LANES[self.group]:
                    wanted = {f"{request.stream}-{request.localtime}-{number}" for number in range(EVENTS)}
                    assert wanted <= ids, "committed, and not answered whole"
                    if self.group == "calc-history":
                        assert (request.stream, request.slot) in handed, "its live rows wait for ever"

    @property
    def done(self) -> bool:
        ends = self.log.log.end_offsets(RECALC.name)
        return all(self.reached.get(partition, 0) == end for partition, end in ends.items())


Event = tuple[str, int]
kinds = st.sampled_from(["CHANGE", "HISTORY", "MANUAL", "behind", "stored"])
happenings = st.lists(st.tuples(kinds, st.sampled_from(STREAMS)), max_size=4)
faults = st.lists(st.sampled_from(FAILURES + KILLS), max_size=12)


@pytest.mark.parametrize("group", list(LANES))
@settings(max_examples=examples(100))
@example([([("HISTORY", 7)], [NONE] * 6 + [AFTER]), ([("HISTORY", 7)], [NONE] * 3 + [KILLED])])
@example([([("behind", 7), ("CHANGE", 7), ("CHANGE", 8)], []), ([("CHANGE", 7)], [ENDED])])
@given(rounds=st.lists(st.tuples(happenings, faults), min_size=1, max_size=6))
def test_what_is_committed_is_answered(
    group: str, rounds: list[tuple[list[Event], list[InjectedFault]]]
) -> None:
    lane = Lane(group)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("POLL", "GATHER_SECONDS", "WAIT_SECONDS", "AGAIN_SECONDS"):
            patch.setattr(recalc_loop, name, 0)
        for happening, what_fails in rounds:
            for kind, stream in happening:
                if kind in ("behind", "stored"):
                    (lane.behind.add if kind == "behind" else lane.behind.discard)(stream)
                else:
                    lane.ask(stream, kind)  # type: ignore[arg-type]
            lane.log.give(what_fails)
            lane.steps.step()
            lane.steps.step()
        lane.log.give([])
        lane.behind.clear()
        for _ in range(20):
            lane.steps.step()
    assert lane.done, "everything is answered and committed"
