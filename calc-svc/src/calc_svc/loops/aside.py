"""Streams whose calculation takes long are set aside, and go on beside the rounds (decision 0076)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from calc_svc.loops.overtaking import OneTurn
from millrace_core.calc.overtaking import Batches
from millrace_core.calc.product import Product
from millrace_core.calc.rounds import Arrival
from millrace_core.wire.events import TriggerBatch

ROUND_SECONDS = 5.0
"""Seconds that a round waits for a stream that is being calculated."""
TICK = 0.2
"""Seconds between two looks at how long each stream has taken."""
MOST = 48
"""How many streams may go on beside the rounds; a round waits for any further one."""


@dataclass(slots=True, eq=False)
class Running:
    """A stream's job. ``since``: when it began (monotonic); None: it still waits for its turn."""

    stream: int
    batches: Sequence[TriggerBatch]
    since: float | None = None
    aside: bool = False
    future: Future[Product] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Aside:
    """A stream that goes on beside the rounds. ``turn``: its own; ``arrivals``: what it calculates."""

    job: Running
    arrivals: Sequence[Arrival]
    turn: OneTurn

    @property
    def stream(self) -> int:
        return self.job.stream


class Workers:
    """Threads that calculate streams: a fixed number of streams at a time, and in addition those that were
    set aside. Used by one thread."""

    def __init__(self, side_by_side: int, calculate: Callable[..., Product], *, patient: bool) -> None:
        """``patient``: a round waits for all of its streams, however long they take."""
        self._calculate, self._patient = calculate, patient
        self._turns = threading.Semaphore(side_by_side)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(side_by_side + MOST, thread_name_prefix="job")
        self.aside: list[Aside] = []

    @property
    def streams(self) -> set[int]:
        """The streams that go on beside the rounds."""
        return {one.stream for one in self.aside}

    def close(self) -> None:
        """Wait for what is under way."""
        self._threads.shutdown(cancel_futures=True)

    def run(self, batches: Batches, *given: object) -> tuple[list[Product], list[Running]]:
        """The products of these streams; and the jobs that take long and go on, for :meth:`beside`."""
        if self._patient:
            return [self._calculate(uid, some, *given) for uid, some in batches.items()], []
        jobs = [Running(uid, some) for uid, some in batches.items()]
        for job in jobs:
            job.future = self._threads.submit(self._run, job, *given)
        late: list[Running] = []
        waiting = {job.future: job for job in jobs}
        while waiting:
            done, _ = wait(waiting, TICK)
            for one in done:
                del waiting[one]
            for job in [job for job in waiting.values() if self._takes_long(job)]:
                del waiting[job.future]
                late.append(job)
        return [job.future.result() for job in jobs if job not in late], late

    def _run(self, job: Running, *given: object) -> Product:
        self._turns.acquire()
        job.since = time.monotonic()
        try:
            return self._calculate(job.stream, job.batches, *given)
        finally:
            with self._lock:
                if not job.aside:
                    self._turns.release()
                job.aside = True

    def _takes_long(self, job: Running) -> bool:
        """Whether the job goes on beside the rounds from now on."""
        if job.since is None or time.monotonic() - job.since < ROUND_SECONDS:
            return False
        with self._lock:
            if job.aside or len(self.aside) >= MOST:
                return False
            job.aside = True
            self._turns.release()
            return True

    def beside(self, jobs: Sequence[Running], arrivals: Sequence[Arrival], turn: OneTurn) -> None:
        """Set these jobs aside. ``turn``: of their round, which is about to end."""
        for job in jobs:
            mine = [one for one in arrivals if one.batch.stream == job.stream]
            self.aside.append(Aside(job, mine, turn.part()))

    def done(self) -> list[Aside]:
        """The streams that have been calculated since; they are set aside no longer."""
        found = [one for one in self.aside if one.job.future.done()]
        self.aside = [one for one in self.aside if one not in found]
        return found


def upto(arrivals: Sequence[Arrival]) -> Mapping[tuple[int, int], int]:
    """The offset after the last arrival, by stream and partition."""
    found: dict[tuple[int, int], int] = {}
    for one in arrivals:
        found[one.part] = max(one.offset + 1, found.get(one.part, 0))
    return found
