"""What does not move for long though something waits is stalled; what rests is not."""

from __future__ import annotations

import threading

import structlog

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Lives, Progress, Stall
from millrace_service.progress import behind

SECONDS = 30.0


class Bench:
    """A part that stands somewhere; time passes when it is told to."""

    def __init__(self) -> None:
        self.time, self.at, self.waits = 1_000_000_000.0, 0, ""
        self.away: MillraceError | None = None
        self.progress = Progress(SECONDS, lambda: self.time)
        self.progress.stopping.set()  # steps do not wait
        self.progress.watch("loop", self._look)

    def _look(self) -> tuple[object, str]:
        if self.away is not None:
            raise self.away
        return self.at, self.waits

    def after(self, seconds: float) -> list[Stall]:
        self.progress.step()
        self.time += seconds
        return self.progress.stalls()


def test_who_rests_is_not_stalled_and_who_moves_is_not() -> None:
    bench = Bench()
    assert bench.after(1_000) == []
    bench.waits = "3 records"
    for bench.at in range(10):
        assert bench.after(SECONDS) == []


def test_what_stands_still_while_something_waits_is_stalled_since_it_began_to_wait() -> None:
    bench = Bench()
    bench.after(1_000)
    began, bench.waits = bench.time, "3 records"
    assert bench.after(SECONDS) == []
    bench.waits = "5 records"
    (stall,) = bench.after(1)
    assert stall == Stall("loop", began, "5 records")
    assert stall.to_wire() == {"part": "loop", "since": "2001-09-09T02:03:20Z", "waits_for": "5 records"}
    assert Stall.from_wire(stall.to_wire()) == stall
    assert str(stall) == "loop has been stalled since 2001-09-09T02:03:20Z: 5 records"
    bench.at += 1
    assert bench.after(0) == []


def test_what_is_done_with_is_not_stalled_any_more_and_begins_anew() -> None:
    bench = Bench()
    bench.waits = "3 records"
    bench.after(SECONDS + 1)
    assert bench.after(0)
    bench.waits = ""
    assert bench.after(1) == []
    bench.waits = "another one"
    assert bench.after(SECONDS) == []
    assert [stall.waits_for for stall in bench.after(1)] == ["another one"]


def test_what_cannot_be_asked_about_has_not_moved() -> None:
    bench = Bench()
    bench.after(1)
    bench.away = MillraceError(ErrorCode.UNAVAILABLE, "the broker does not answer")
    assert bench.after(SECONDS) == []
    assert [stall.waits_for for stall in bench.after(1)] == ["the broker does not answer"]
    bench.away = None
    assert bench.after(1) == []


def test_what_waits_in_a_topic_is_said_by_count_and_place() -> None:
    assert behind("triggers", {0: 5, 1: 7}, {0: 5, 1: 7}) == ""
    assert behind("triggers", {0: 5, 1: 7, 2: 9}, {1: 6}) == (
        "1 record of topic triggers is waiting, from offset 6 of partition 1 on"
    )
    assert behind("triggers", {0: 5, 1: 7}, {0: 3, 1: 6}).startswith(
        "3 records of topic triggers are waiting"
    )
    assert behind("triggers", {}, {0: 3}) == "", "a topic that began anew"


class Waiting:
    name = "waiting"

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.failing = threading.Event()

    def begin(self) -> None: ...

    def step(self) -> None:
        if self.failing.is_set():
            raise MillraceError(ErrorCode.UNAVAILABLE, "the commit fails")
        self.stopping.wait(0.005)

    def end(self) -> None: ...


def test_the_health_of_all_threads() -> None:
    lives, work = Lives(structlog.get_logger("test"), 0.0), Waiting()
    life = lives.add(work)
    assert not lives.health(True, {}).ready, "it has not begun"
    lives.start()
    found = lives.health(True, {"tables": 3})
    assert found.ready
    assert found.detail == {"threads": {"waiting": True}, "tables": 3, "stalled": []}
    assert not lives.health(False, {}).ready
    work.failing.set()
    while life.trouble is None:
        work.stopping.wait(0.01)
    found = lives.health(True, {})
    assert not found.ready
    assert [one["waits_for"] for one in found.detail["stalled"]] == ["the commit fails"]  # type: ignore[attr-defined]
    lives.stop()
    assert not life.alive
