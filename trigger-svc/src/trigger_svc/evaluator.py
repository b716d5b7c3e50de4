"""The slots in memory, and the one way in which messages reach them.

Whoever has messages (the reader that follows the log, ``ahead``, or a micro-batch, ``batches``) gives them to
:meth:`Evaluator.evaluate`: in the order of each partition, from the positions on, each message once. What
they cause is sent before it returns. :meth:`Evaluator.seal` writes states and positions to the disk; only
what is sealed is done for good. What was evaluated since comes again after a crash, cut into the same
batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from structlog.typing import FilteringBoundLogger

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot.isolation import RunningSlot, in_order
from millrace_core.trigger.stream import Output
from millrace_core.trigger.topic_use import TopicUse
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, WAL_PREFIX, stream_in
from millrace_wal import Log, Message, Record, replay
from trigger_svc.clock import take_in
from trigger_svc.gaps import Missing
from trigger_svc.lead import Lead
from trigger_svc.ledger.cuts import Cut, Cuts
from trigger_svc.ledger.states import Generation, Positions, SlotStates
from trigger_svc.messages import INNER, by_slot, controls_of, ends_of, records_of
from trigger_svc.metrics import BATCH_SECONDS, MESSAGES
from trigger_svc.positions import Ends, advance, behind, copied, fetch, inner_begins
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import taken_over
from trigger_svc.traces import TracedRow, TracedRows

MOST_UNSEALED = 1_000_000
"""The most messages that should be evaluated but not sealed: a restart evaluates them again."""
DISK_WRITES = 4
"""How many states are written side by side; each one waits for the disk twice."""


class Evaluator:
    """See the module. Safe to use from several threads; ``lock`` is held while anything changes, and notified
    of each change.

    ``positions``: up to where all is evaluated; ``sealed``: up to where all is evaluated for good; ``use``:
    which WAL topics streams want. ``version``: changes when something other than the reader has moved the
    positions, or when other topics are read; ``evaluated``: how many messages were evaluated;
    ``stands_back``: whether the reader leaves messages to the micro-batches; ``delays_due``: when (ns,
    ascending) open windows trigger by MAX_DELAY; ``lead``: how long before that ticks are to be written.
    """

    def __init__(self, settings: TriggerSettings, log: Log, logger: FilteringBoundLogger) -> None:
        self._settings, self._log, self._logger = settings, log, logger
        self.lock = threading.Condition(threading.RLock())
        self.states = SlotStates(settings.slot_states, settings.slots)
        self._cuts = Cuts(settings.slot_states)
        self._disk = ThreadPoolExecutor(DISK_WRITES, thread_name_prefix="slot-states")
        self._slots: list[RunningSlot] = []
        self._generation = Generation(settings.slots, [])
        self._number = -1
        self._loaded = False
        self._large: Cut | None = None
        self._missing = Missing(log, lambda gap: self.use.streams_of(gap.topic, gap.partition, gap.end))
        self.positions: Positions = {}
        self.sealed: Positions = {}
        self.use = TopicUse()
        self.version = self.evaluated = self._unsealed = 0
        self.stands_back = False
        self.large_since = float("-inf")
        self.delays_due: Sequence[int] = ()
        self.lead = Lead()

    def close(self) -> None:
        self._disk.shutdown()
        self._cuts.close()

    # ------------------------------------------------------------------ the start

    def ready(self) -> None:
        """Begin where the last generation stands, and evaluate again what was evaluated since. Does nothing
        if that was done before and nothing has failed since.

        :raises StateError: if the states cannot be used.
        :raises MillraceError: if the broker does not give what is to be read.
        """
        with self.lock:
            if self._loaded:
                return
            began = time.monotonic()
            found = self._generation = self.states.latest()
            self._slots = self._begun(found)
            self.positions = self._begins(found)
            self.sealed = copied(self.positions)
            self.use, self._large, self.stands_back = TopicUse(), None, False
            self._unsealed = 0
            for record in replay(self._log, CONTROL.name):
                if record.offset < self.positions[CONTROL.name].get(record.partition, 0):
                    take_in(record, lambda one, _: self.use.apply(one), self._logger)
            again = self._again(self._cuts.since(found.number))
            # after all that is in the journal, including a generation that was begun but not sealed
            self._number = max(self._number, self._generation.number, self._cuts.last)
            self._cuts.begin(self._number)
            self._follow_topics()
            self.delays_due = self._due()
            self._loaded = True
            self._changed()
        seconds = round(time.monotonic() - began, 2)
        self._logger.info("slots begin", generation=found.number, batches_again=again, seconds=seconds)

    def _begins(self, found: Generation) -> Positions:
        positions = inner_begins(self._log)
        if found.positions is not None:
            return positions | copied(found.positions)
        if found.number < 0:
            return positions
        # an older version kept them only in Spark's checkpoint, which the next query begins anew
        positions |= copied(taken_over(self._settings.checkpoint, found.number))
        self._generation = self.states.seal(found, found.number + 1, positions)
        return positions

    def _again(self, cuts: Sequence[Cut]) -> int:
        """Evaluate these batches as they were cut; returns how many there were."""
        done = 0
        self._follow_topics()  # some may not have been there when the generation was sealed
        for cut in cuts:
            if not behind(self.positions, cut.ends):
                continue  # it is from before the generation
            if cut.large:
                # this is the last one: the next micro-batch does it, whatever else that is to read
                self._large, self.stands_back = cut, True
                break
            starts = {topic: self.positions.get(topic, {}) for topic in cut.ends}
            records = fetch(self._log, starts, cut.ends)
            self._missing.look(Messages.of(records), self.positions, cut.ends)
            self._send(self._take(Messages.of(records + self._before(cut.again)), cut))
            done += 1
        return done

    def _before(self, again: Positions) -> list[Record]:
        ends = {topic: self.positions[topic] for topic in again if topic in self.positions}
        return fetch(self._log, again, ends)

    # ------------------------------------------------------------------ messages

    def evaluate(self, messages: Messages, traced: TracedRows | None = None) -> None:
        """Evaluate a batch: only rows, or only messages of :data:`INNER`. Messages of topics that are not
        read, and those that were evaluated before, are left out. ``traced``: those of the rows that are
        traced.

        :raises MillraceError: if the log does not take what is to be sent; :meth:`ready` begins anew then.
        """
        with self.lock:
            messages = messages.only(self._fresh(messages))
            if not len(messages):
                return
            assert self._large is None, "a large batch that did not end goes first"
            began = time.monotonic()
            ends = ends_of(messages)
            self._missing.look(messages, self.positions, ends)
            again = self._from_before(messages)
            cut = Cut(ends, again)
            self._loaded = False  # until all is sent: after a failure half way, begin anew
            before = self._before(again)
            self._cuts.add(cut)
            sent = self._take(Messages.of([*records_of(messages), *before]) if before else messages, cut)
            self._send(sent) if traced is None else self._send_traced(sent, traced)
            self._loaded = True
            ticks = messages.times_of(CLOCK.name)
            if self.delays_due and ticks.size:
                self.lead.learn(time.time_ns() - float(ticks.mean()) * NS_PER_MS)
            MESSAGES.inc(len(messages))
            BATCH_SECONDS.observe(time.monotonic() - began)
            self.lock.notify_all()

    def _fresh(self, messages: Messages) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = np.zeros(len(messages), dtype=bool)
        for place, topic in enumerate(messages.topics):
            mine = messages.topic == place
            for partition, position in self.positions.get(topic, {}).items():
                found |= mine & (messages.partition == partition) & (messages.offset >= position)
        return found

    def _from_before(self, messages: Messages) -> Positions:
        """Where rows begin that were evaluated before, but are wanted by streams which begin only now."""
        found: Positions = {}
        anew = set[str]()
        for record in controls_of(messages):
            if isinstance(record, control.DropTable):  # streams that begin later say where it is read
                anew.add(record.topic)
                found.pop(record.topic, None)
            for topic, offsets in self.use.begins(record).items():
                for partition, offset in offsets.items():
                    position = self.positions.get(topic, {}).get(partition, 0)
                    if offset < position and topic not in anew:
                        starts = found.setdefault(topic, {})
                        starts[partition] = min(offset, starts.get(partition, position))
        return found

    def _take(self, messages: Messages, cut: Cut) -> list[Output]:
        slots = self._settings.slots
        again = {topic: dict(self.positions[topic]) for topic in cut.again if topic in self.positions}
        sent: list[Output] = []
        for number, mine in by_slot(messages, slots):
            slot = self._slots[number]
            sent += slot.evaluate(mine, again)
            sent += slot.spare()
            self._remark(slot)
        advance(self.positions, cut.ends)
        records = list(controls_of(messages))
        for record in records:
            self.use.apply(record)
            if isinstance(record, control.DropTable):  # a table that is made again begins anew
                self.positions.pop(record.topic, None)
        if records:
            self._follow_topics()
        self.evaluated += len(messages)
        self._unsealed += len(messages)
        self.delays_due = self._due()
        return sent

    def _due(self) -> list[int]:
        return in_order(due for slot in self._slots for due in slot.delays_due)

    def _send(self, sent: Sequence[Output]) -> None:
        if sent:
            self._log.append([Message(*one) for one in sent])

    def _send_traced(self, sent: Sequence[Output], traced: TracedRows) -> None:
        with traced.sending(sent, self._streams_of) as messages:
            if messages:
                self._log.append(messages)

    def _streams_of(self, row: TracedRow) -> tuple[int, ...]:
        if row.topic == REGROUP.name:
            return (stream_in(row.key),)
        return self.use.streams_of(row.topic, row.partition, row.offset + 1)

    def _remark(self, slot: RunningSlot) -> None:
        for one in slot.remarks:
            self._logger.error(one)
        slot.remarks.clear()

    # ------------------------------------------------------------------ topics

    def follow_topics(self) -> None:
        """Begin to read topics that streams want and that exist by now; stop reading what none wants.

        :raises MillraceError: if the broker cannot be asked.
        """
        with self.lock:
            self._follow_topics()

    def _follow_topics(self) -> None:
        wanted = self.use.wanted
        gone = [topic for topic in self.positions if topic.startswith(WAL_PREFIX) and topic not in wanted]
        for topic in gone:
            del self.positions[topic]
        fresh = [topic for topic in wanted if topic not in self.positions]
        ends = self._log.ends_of(fresh) if fresh else {}
        for topic, offsets in ends.items():
            # partitions unknown to any stream are read from the beginning; a topic may have been made anew
            starts = {p: min(wanted[topic].get(p, 0), end) for p, end in offsets.items()}
            self.positions[topic] = starts
        if gone or ends:
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.lock.notify_all()

    def pass_over(self, ends: Ends) -> None:
        """Offsets up to these no longer hold messages."""
        with self.lock:
            advance(self.positions, ends)
            self.lock.notify_all()

    # ------------------------------------------------------------------ for good

    @property
    def much_unsealed(self) -> bool:
        """Whether so much is unsealed that it should be sealed now. Mostly that is done before the reader
        would have to wait (:attr:`far_ahead`)."""
        return self._unsealed > MOST_UNSEALED // 2

    @property
    def far_ahead(self) -> bool:
        """Whether so much is unsealed that more messages should wait."""
        return self._unsealed > MOST_UNSEALED

    def seal(self) -> None:
        """Write states and positions to the disk, if anything has changed. If an evaluation failed half way,
        what was evaluated is evaluated again first: nothing is sealed that was not sent.

        :raises OSError: if the disk does not take them.
        :raises MillraceError: as :meth:`evaluate`.
        """
        with self.lock:
            self.ready()
            changed = {slot.number: self._snapshot(slot) for slot in self._slots if slot.changed}
            if not changed and self.positions == self.sealed:
                return
            before, positions, number = self._generation, copied(self.positions), self._next()
            self._unsealed = 0
        writes = [
            self._disk.submit(self.states.write, slot, number, state, before)
            for slot, state in changed.items()
        ]
        try:
            for write in writes:
                write.result()
            self._sealed(self.states.seal(before, number, positions))
        except BaseException:
            self._loaded = False  # the slots believe that their states are on the disk
            raise

    def _next(self) -> int:
        self._number = max(self._number, self._generation.number) + 1
        self._cuts.begin(self._number)
        if self._large is not None:
            self._cuts.add(self._large)
        return self._number

    def _sealed(self, generation: Generation) -> None:
        with self.lock:
            self._generation, self.sealed = generation, copied(generation.positions or {})
            self._cuts.forget_before(generation.number)

    def _snapshot(self, slot: RunningSlot) -> bytes:
        state, sent = slot.snapshot()
        self._remark(slot)
        if sent:
            self._loaded = False
            self._send(sent)
            self._loaded = True
        assert state is not None, "it has evaluated something"
        return state

    # ------------------------------------------------------------------ large batches

    def pending(self) -> Positions | None:
        """The ends of a large batch that a crash has interrupted; it must be evaluated first, unchanged."""
        return None if self._large is None else self._large.ends

    def evaluate_large(self, ends: Positions, run: Callable[[Positions, Generation, int], None]) -> None:
        """Have all rows up to these ends (of partitions that have some) evaluated elsewhere; if there are
        :meth:`pending` ends, up to those. Call :meth:`ready` first, under the same lock under which the ends
        were found. ``run``: does it, given the positions, the generation whose states it reads, and the
        number of the one that it writes.

        :raises MillraceError: as :meth:`evaluate`, and what ``run`` raises.
        """
        with self.lock:
            self.stands_back = True
            self._missing.look(None, self.positions, ends)
            if self._large is None:
                self._large = Cut(ends, large=True)
                self._cuts.add(self._large)
            self.seal()
            self._loaded = False
            self.large_since = time.monotonic()
            before, number = self._generation, self._number + 1
            run(copied(self.positions), before, number)
            count, positions = behind(self.positions, ends), copied(self.positions)
            advance(positions, ends)
            self._large = None
            self._next()
            self._sealed(self.states.seal(before, number, positions))
            self._slots = self._begun(self._generation)
            self.positions, self._loaded = positions, True
            self.delays_due = self._due()
            self.evaluated += count
            MESSAGES.inc(count)
            self._changed()

    def _begun(self, found: Generation) -> list[RunningSlot]:
        slots, most_held = self._settings.slots, self._settings.trigger_most_held
        return [RunningSlot(self.states.read(n, found), n, slots, most_held) for n in range(slots)]

    def catch_up(self, ends: Ends) -> None:
        """Evaluate the messages of :data:`INNER` up to these ends.

        :raises MillraceError: as :meth:`evaluate`.
        """
        with self.lock:
            starts = {topic: self.positions.get(topic, {}) for topic in INNER}
            self.evaluate(Messages.of(fetch(self._log, starts, {t: ends[t] for t in INNER if t in ends})))
