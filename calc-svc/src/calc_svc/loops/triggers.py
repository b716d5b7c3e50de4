"""The trigger loop: takes all waiting events, calculates them stream by stream, writes, notifies, commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

import structlog

from calc_svc import metrics
from calc_svc.jobs.job import StreamJobs
from calc_svc.jobs.waits import Waits
from calc_svc.loops.aside import upto
from calc_svc.loops.calculating import Calculating, Waiting
from calc_svc.loops.counted import tally_of
from calc_svc.loops.holding import LIVE, Holding, Share
from calc_svc.loops.latest import LatestReader
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.patience import patiently
from calc_svc.loops.readiness import Readiness
from calc_svc.loops.rounds import Intake
from calc_svc.loops.traces import EventTraces
from millrace_core.calc.rounds import Round, first_within, left_whole
from millrace_core.calc.waiting import Left, SetAside, StreamPartition
from millrace_core.errors import MillraceError
from millrace_core.wire import counters, topics
from millrace_service import OFF, Tracing, behind, passed_over
from millrace_wal import DeadLetters, GapWatch, GroupReader, Log, Record

POLL, REST = 0.5, 1.0
"""Seconds that a step waits for triggers: while some are held, or are calculated beside the rounds, and
otherwise."""
TAKE = 5_000  # messages per round
ROUND_BYTES = 8 << 20
"""How long a round's messages may be together, some 80,000 events: no more have their results in memory, and
what is written is not long behind what is calculated."""
WAIT_SECONDS = 1.0  # for what is not there yet; then the stream's triggers are left, and the others go on
AGAIN_WAIT_SECONDS = 0.1  # the same for triggers that were left before
PASS_SECONDS = 5.0  # how long a commit is put off if nothing was calculated
JOB_SECONDS = 600.0  # a job may run this long before it counts as stalled
OTHERS_SECONDS = 0.2  # until this asks again how far other processes are with live triggers
MEMBER_SECONDS = 60.0  # between two signs of life to the group while nothing is read


class TriggerLoop:
    """While jobs run, triggers queue up; the next round takes all that wait (natural batching). A work of
    :class:`millrace_service.Life`.

    ``share``: which part of the topic it calculates. ``first``: the loop for live triggers, which goes first
    (decision 0024); None: this one is.
    """

    def __init__(
        self, log: Log, jobs: StreamJobs, overtaking: Overtaking, share: Share = LIVE,
        first: TriggerLoop | None = None, tracing: Tracing = OFF,
    ) -> None:  # fmt: skip
        self._log, self._jobs, self._share, self._first = log, jobs, share, first
        self._logger = structlog.get_logger("calc-svc")
        self._dead = DeadLetters(log, "calc-svc", passed_over(self._logger))
        self._intake = Intake(self._dead, share)
        self.name, self.stopping = share.group, threading.Event()
        self.running = True
        """True until the loop ends for good, and even before it has begun: after a restart the loops begin in
        any order, and the others must wait for this one."""
        self._reader: GroupReader | None = None
        self._later: list[Record] = []
        """What was read and is for the next rounds."""
        self._polled = 0.0
        self._readiness = Readiness(log, jobs)
        self._own: set[int] = set()
        self._done: dict[int, int] = {}
        self._passed: dict[tuple[str, int], int] = {}
        self._committed = 0.0
        self._gaps = GapWatch(log, share.group, share.group, metrics.count_lost)
        lost = self._gaps.tell
        self._holding: Holding = Holding(
            log, jobs.catalog, jobs.store.missing, lambda gap, streams: lost(gap, streams=streams), share,
            None if first is None else first._holding,
        )  # fmt: skip
        self._tally = tally_of(jobs.catalog, counters.CALC)
        latest = None if share.live else LatestReader(log, jobs.catalog, self.stopping)
        self._traces = EventTraces(tracing)
        self._calculating = Calculating(
            log, jobs, overtaking, self._tally, self.stopping, self._logger, share.side_by_side, latest,
            self._traces,
        )  # fmt: skip

    def begin(self) -> None:
        self._passed, self._later = {}, []
        self._reader = self._log.subscribe(self.name, [topics.TRIGGERS.name], gathers=True)

    def step(self) -> None:
        """One round."""
        reader = self._reader
        assert reader is not None, "begin comes first"
        if not self._later:
            self._later, self._polled = self._poll(reader, self._patience()), time.monotonic()
        elif time.monotonic() - self._polled > MEMBER_SECONDS:
            reader.poll(0, limit=0)
            self._polled = time.monotonic()
        assigned = reader.assigned()
        # records may be left over from a partition that has just gone to another instance. That one decides
        # on them: a mark from here would hide an older mark of its triggers
        there = [one for one in self._later if (one.topic, one.partition) in assigned]
        some = first_within(ROUND_BYTES, [len(one.value or b"") for one in there])
        records, self._later = there[:some], there[some:]
        if not self._own_now(assigned):
            return
        self._own = {partition for _, partition in assigned}
        self._gaps.keep(assigned)
        self._gaps.watch(records)
        self._tally.keep({self._share.task(partition) for partition in self._own})
        self._settle()
        self._take(records, reader)
        self._done = self._taken(reader)
        self._read_again()

    def _patience(self) -> float:
        """Seconds to wait for triggers."""
        if self._holding.due:
            return 0
        return POLL if self._holding.streams or self._calculating.aside else REST

    def _poll(self, reader: GroupReader, timeout: float) -> list[Record]:
        if not self._traces.on:
            return reader.poll(timeout, TAKE)
        stretches = reader.stretches(timeout, TAKE)
        self._traces.read(stretches)
        return [record for some in stretches for record in some.records()]

    def _taken(self, reader: GroupReader) -> dict[int, int]:
        """Partition -> the first offset that no round has taken."""
        found = dict(reader.positions().get(topics.TRIGGERS.name, {}))
        return found | {one.partition: one.offset for one in reversed(self._later)}

    def end(self) -> None:
        self._holding.close()
        if self.stopping.is_set():
            self.running = False
            self._calculating.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self) -> tuple[object, str]:
        """How far its partitions are calculated, and what lies after that. A job may take its time."""
        own, now = sorted(self._own), time.monotonic()
        working = int(now) if now - JOB_SECONDS < self._calculating.since <= now else 0
        if not own:
            return None, f"no partition of topic {topics.TRIGGERS.name} is assigned to this process"
        at = {partition: done for partition, done in list(self._done.items()) if partition in own}
        ends = self._log.end_offsets(topics.TRIGGERS.name)
        return (own, at, working), behind(topics.TRIGGERS.name, ends, at)

    def waits(self) -> str:
        """In words: what is not calculated yet, or why that is not known."""
        if not self._done:
            return "the first round is under way"
        try:
            _, found = self.look()
        except MillraceError as error:
            return str(error)
        return found

    def _own_now(self, assigned: set[tuple[str, int]]) -> bool:
        """Learn what waits in partitions that were another instance's, or were this one's before it began
        anew. The topic ``status`` says so, up to its present end. False when stopped before that was read."""
        if self._holding.owns(assigned):
            return True
        ends: dict[int, int] = {}
        if not self._patiently(lambda: ends.update(self._log.end_offsets(topics.STATUS.name))):
            return False
        while self._jobs.catalog.status_position < ends.get(0, 0):
            if self.stopping.wait(0.01):
                return False
        self._holding.own(assigned)
        return True

    def _take(self, records: Sequence[Record], reader: GroupReader) -> None:
        """Calculate those of the records that are this loop's, and commit."""
        self._passed |= {(one.topic, one.partition): one.offset + 1 for one in records}
        mine = [record for record in records if self._share.has(record)]
        if mine:
            self._let_pass(reader)
            kept, marks = self._holding.sift(mine)
            left = self._calculate(self._intake.take(kept), WAIT_SECONDS)
            if left is None or not self._patiently(self._dead.write):
                return
            marks += self._holding.leave(left)
            if marks and not self._patiently(lambda: self._log.append(marks)):
                return
        now = time.monotonic()
        if self._passed and (mine or now - self._committed > PASS_SECONDS):
            offsets, self._passed, self._committed = self._passed, {}, now
            self._patiently(lambda: reader.commit(offsets))

    def _let_pass(self, reader: GroupReader) -> None:
        """Wait until the live triggers that are in the log by now have been calculated and written, so that
        no older result of theirs comes after a newer one of these. This holds for all partitions, for an
        answer seldom lies in the partition of the slot that asked."""
        if self._first is None:
            return
        ends: dict[int, int] = {}
        if self._patiently(lambda: ends.update(self._log.end_offsets(topics.TRIGGERS.name))):
            self._first.wait_for(ends, self.stopping, lambda: reader.poll(0, limit=0))

    def wait_for(
        self, ends: Mapping[int, int], stopping: threading.Event, alive: Callable[[], object]
    ) -> None:
        """Wait until what lies before these offsets is calculated, here or by the process that owns it; or
        until the caller is ``stopping``, or this loop has ended. Called by another loop's thread. ``alive``:
        called now and then as that loop's sign of life to its group."""
        ends, told = dict(ends), time.monotonic()
        while self.running and (late := self.behind(ends)):
            mine = late & self.own
            if not mine:  # another process may own them
                committed = self._committed_by_all(stopping)
                ends = {p: ends[p] for p in late if committed.get(p, 0) < ends[p]}
            if stopping.wait(0.01 if mine or not ends else OTHERS_SECONDS):
                return
            if time.monotonic() - told > MEMBER_SECONDS:
                told = time.monotonic()
                alive()

    def _committed_by_all(self, stopping: threading.Event) -> dict[int, int]:
        """How far all processes together are done, by partition."""
        found: dict[int, int] = {}
        asking = "asking how far others have calculated"
        patiently(
            lambda: found.update(self._log.committed(self.name, topics.TRIGGERS.name)),
            stopping, self._logger, asking,
        )  # fmt: skip
        return found

    def holds(self, uid: int) -> bool:
        """Whether triggers of a stream wait here, to be calculated later. May be called by any thread."""
        return uid in self._holding.streams

    @property
    def own(self) -> Set[int]:
        """The partitions that it reads, as far as it knows."""
        return self._own

    def behind(self, ends: Mapping[int, int]) -> set[int]:
        """The partitions in which this process has not calculated all that lies before these offsets."""
        return {partition for partition, end in ends.items() if self.done(partition) < end}

    def done(self, partition: int) -> int:
        """The first offset of a partition of ``triggers`` that this process has not calculated."""
        return self._done.get(partition, 0)

    def _read_again(self) -> None:
        """Calculate some of what streams left in the log while they waited."""
        try:
            chunk = self._holding.chunk()
        except MillraceError as error:
            self._logger.warning("reading triggers again", error=str(error))
            self.stopping.wait(1.0)
            return
        if chunk is None:
            return
        left = self._calculate(self._intake.take(chunk.records), AGAIN_WAIT_SECONDS, chunk.known)
        if left is None or not self._patiently(self._dead.write):
            return
        told = self._holding.calculated(chunk, left)
        if told:
            self._patiently(lambda: self._log.append(told))

    def _settle(self) -> None:
        """Take back streams that have been calculated beside the rounds."""
        for one, waits in self._calculating.settle() or ():
            arrivals = Round(one.arrivals)
            if waits is None:
                told = self._holding.go_on(one.stream, upto(one.arrivals))
                self._intake.done(arrivals)
                metrics.TRIGGERS_CALCULATED.inc(arrivals.events)
            else:
                told = self._holding.go_on(one.stream, {})
                told += self._holding.leave(left_whole(arrivals, {one.stream: waits}, time.monotonic()))
            if told:
                self._patiently(partial(self._log.append, told))

    def _calculate(
        self, found: Round, seconds: float, known: frozenset[StreamPartition] = frozenset()
    ) -> dict[StreamPartition, Left] | None:
        """Calculate and write. Returns where the triggers begin that cannot be calculated yet, although this
        waited ``seconds`` for what is missing; None when stopped before that. ``known``: as in ``Chunk``."""
        metrics.TRIGGERS_WAITING.labels(self._share.group).set(found.events)
        until = time.monotonic() + seconds
        left: dict[StreamPartition, Left] = {}
        if not self._patiently(lambda: left.update(self._readiness.left(found, until))):
            return None
        if self._traces.on:
            self._traces.ready = time.time_ns()
        aside = dict.fromkeys(self._calculating.aside, SetAside())
        left |= left_whole(found, aside, time.monotonic())
        found = found.without(left)
        streams = found.streams
        urgent = [uid for uid in streams if self._jobs.low_latency(uid)]
        waits = Waits(until, frozenset(uid for uid, _ in known))
        waiting: Waiting = {}
        for uids in (urgent, [uid for uid in streams if uid not in set(urgent)]):
            if uids:
                late = self._calculating.persist({uid: streams[uid] for uid in uids}, found.arrivals, waits)
                if late is None:
                    return None
                waiting |= late
        later = left_whole(found, waiting, time.monotonic())
        found = found.without(later)
        self._intake.done(found)
        metrics.TRIGGERS_CALCULATED.inc(found.events)
        metrics.TRIGGERS_WAITING.labels(self._share.group).set(0)
        return left | later

    def _patiently(self, action: Callable[[], object]) -> bool:
        return self._calculating.patiently(action)
