"""What is done with a micro-batch: a small one is judged here, in the driver, a large one by Spark's workers.

To distribute a batch costs more than to judge a few thousand messages. So a small one comes to the driver,
where the slots are in memory. Both ways leave the slots' states where the other one finds them
(``trigger_svc.states``), so that each batch may go its own way (decision 0026).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from millrace_core.errors import MillraceError
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import NS_PER_MS, Output
from millrace_core.wire.topics import CLOCK, slot_for
from millrace_wal import Log, Message
from trigger_svc.lead import Lead
from trigger_svc.metrics import count_lost
from trigger_svc.query_gaps import QueryGaps, Touched
from trigger_svc.rest import Rest
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import Ends, ends_behind, keep_plan, messages_in
from trigger_svc.spark.query import SINK, connection, in_slots
from trigger_svc.spark.session import compiled
from trigger_svc.spark.workers import OUTPUT_SCHEMA, Arrived, judge_slot, judge_slots
from trigger_svc.states import SlotStates

SMALL_BYTES = 16 * 1024 * 1024
"""A batch of more is none for the driver; its messages pass the driver's Java heap."""
FIRST_GUESS = 1000.0
"""Bytes of a message before one was seen."""
EVERYWHERE = -1
"""For the slot of what goes to all slots."""
DISK_WRITES = 4
"""States that are written side by side; each waits for the disk twice."""
REMEMBERED = 300
"""Batches; as many as Spark's reports that are kept."""


class BeginAgain(Exception):
    """The query is to begin again, before the batch that was to be judged; no failure."""


@dataclass(slots=True)
class Lengths:
    """What is known of how long messages are: the offsets of a batch say only how many there are.

    ``each``: bytes of a message, as guessed.
    """

    each: float = FIRST_GUESS

    def small(self, messages: int) -> bool:
        """Whether so many messages may come to the driver."""
        return messages * self.each <= SMALL_BYTES

    def learn(self, size: int, messages: int) -> None:
        """A batch of so many messages had ``size`` bytes."""
        found = size / messages
        # too low a guess fills the heap, too high a one costs some time
        self.each = max(found, self.each + (found - self.each) / 8)

    def learn_too_long(self) -> None:
        """A batch was too long to be collected: they are far longer than so far."""
        self.each = SMALL_BYTES


@dataclass(slots=True)
class Held:
    """A slot in memory: its state after the last batch, and the slot in that state, if it can go on."""

    state: bytes | None
    slot: Slot | None = None

    @property
    def delays_due(self) -> list[int]:
        return [] if self.state is None else Slot.delays_due(self.state)


class Batches:
    """Judges the micro-batches of one run of the query; ``__call__`` is what ``start_query`` wants.

    ``delays_due``: when (ns since the epoch, ascending) the next open windows trigger by MAX_DELAY;
    ``lead``: how long before that ticks should be written.
    ``rests``: whether the query rests behind a batch of ticks alone; ``rested``: the last batches behind
    which it did.
    ``judged``: the last batch that was judged, ``done``: up to where that is; ``large_since``: when the last
    batch went to workers, by ``time.monotonic``; ``failure``: what the log has
    refused last, for Spark tells of it in a text only.
    ``leaves``: from now on no batch is judged; the next one ends the query with :class:`BeginAgain`.
    """

    def __init__(
        self, settings: TriggerSettings, log: Log, rest: Rest, ticked: Callable[[], int] = lambda: -1,
        touched: Touched = lambda gap: (),
    ) -> None:  # fmt: skip
        """``ticked``: says which offset in the topic ``clock`` the clock has written last; ``touched``: which
        streams should have read what is missing of a topic."""
        self._settings, self._log, self._rest, self._ticked = settings, log, rest, ticked
        self._gaps = QueryGaps(log, settings.checkpoint, touched, count_lost)
        self.rests = self.leaves = False
        self.done: Ends = {}
        self.judged = -1
        self.large_since = float("-inf")
        self.failure: MillraceError | None = None
        self.rested: deque[int] = deque(maxlen=REMEMBERED)
        self._states = SlotStates(settings.slot_states, settings.slots)
        self._disk = ThreadPoolExecutor(DISK_WRITES, thread_name_prefix="slot-states")
        self._held: dict[int, Held] = {}
        self._lengths = Lengths()
        self.delays_due: Sequence[int] = ()
        self.lead = Lead()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Judge the messages (columns of INPUT) of a batch, send what follows, keep the states.

        It may be called again for the same batch, with the same messages: what is sent then says the same.

        :raises BeginAgain: if the query is to end; nothing was done.
        """
        if self.leaves:
            raise BeginAgain("no failure: the query begins again, to read other topics")
        try:
            self._judge(frame, batch)
        except MillraceError as error:
            self.failure = error
            raise

    def _judge(self, frame: DataFrame, batch: int) -> None:
        table = self._collected(frame, batch)
        self._gaps.check(batch, table)
        if table is None:
            self._judge_in_workers(frame, batch)
        elif table.num_rows:
            self._judge_here(Arrived(table).take(), batch)
        slots = [self._hold(number, batch + 1) for number in range(self._settings.slots)]
        self.delays_due = sorted({due for slot in slots for due in slot.delays_due})
        self.done, self.judged = ends_behind(self._settings.checkpoint, batch), batch
        if self.rests and table is not None and _ticks_alone(table):
            self._rest_behind(batch)

    def close(self) -> None:
        """After the last batch."""
        self._disk.shutdown()

    def _rest_behind(self, batch: int) -> None:
        ends = self.done
        # to be told of a tick by the broker takes longer than to know of it
        if self._ticked() < ends.get(CLOCK.name, {}).get(0, 0):
            self.rested.append(batch)
            self._rest.until_news(ends)

    def _collected(self, frame: DataFrame, batch: int) -> Any:
        """The messages as an Arrow table; None if they are too many."""
        count = messages_in(self._settings.checkpoint, batch)
        if count > self._settings.trigger_small_batch or not self._lengths.small(count):
            return None
        try:
            table = frame.toArrow()
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
            self._lengths.learn_too_long()
            return None
        if table.num_rows:
            self._lengths.learn(table.nbytes, table.num_rows)
        return table

    # ------------------------------------------------------------------ in the driver

    def _judge_here(self, messages: Messages, batch: int) -> None:
        sent: list[Output] = []
        # the broker is told meanwhile: should one of both fail, the batch runs again from what it found
        writes = [self._disk.submit(keep_plan, self._settings.checkpoint, batch)]
        for number, mine in by_slot(messages, self._settings.slots):
            held = self._hold(number, batch)
            judged = judge_slot(
                held.state, number, self._settings.slots, mine, held.slot,
                most_held=self._settings.trigger_most_held,
            )  # fmt: skip
            if judged is not None:
                self._held[number] = Held(judged.state, judged.slot)
                writes.append(self._disk.submit(self._states.write, number, batch, judged.state))
                sent += judged.sent
        if sent:
            self._log.append([Message(*one) for one in sent])
            if self.delays_due and (ticks := messages.times_of(CLOCK.name)).size:
                self.lead.learn(time.time_ns() - float(ticks.mean()) * NS_PER_MS)
        for write in writes:
            write.result()
        self._states.seal(batch)

    def _hold(self, number: int, batch: int) -> Held:
        """The slot as this batch finds it."""
        held = self._held.get(number)
        if held is None:
            held = self._held[number] = Held(self._states.read(number, batch))
        return held

    # ------------------------------------------------------------------ in workers

    def _judge_in_workers(self, frame: DataFrame, batch: int) -> None:
        slots = self._settings.slots
        self._held.clear()
        keep_plan(self._settings.checkpoint, batch)
        with compiled(frame.sparkSession):
            (
                in_slots(frame, slots)
                .repartitionById(self._settings.trigger_workers, F.col("slot"))
                .mapInArrow(
                    judge_slots(slots, self._states, batch, self._settings.trigger_most_held), OUTPUT_SCHEMA
                )
                .write.format("kafka")
                .options(**SINK, **connection(self._settings))
                .save()
            )
        self._states.seal(batch)


def by_slot(messages: Messages, slots: int) -> Iterator[tuple[int, Messages]]:
    """The messages of each slot that gets any, in the order of slots."""
    kinds, kind = np.unique(messages.topic * len(messages.keys) + messages.key, return_inverse=True)
    pairs = (divmod(one, len(messages.keys)) for one in kinds.tolist())
    found = (slot_for(messages.topics[topic], messages.keys[key], slots) for topic, key in pairs)
    slot_of_kind = np.array([EVERYWHERE if slot is None else slot for slot in found], dtype=np.int64)
    goes_to = slot_of_kind[kind]
    for slot in range(slots):
        mine = np.flatnonzero((goes_to == slot) | (goes_to == EVERYWHERE))
        if len(mine):
            yield slot, messages.take(mine)


def _ticks_alone(table: Any) -> bool:
    return pc.unique(table.column("topic")).to_pylist() in ([], [CLOCK.name])
