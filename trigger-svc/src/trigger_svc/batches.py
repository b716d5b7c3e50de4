"""What is done with a micro-batch: a small one is judged here, in the driver, a large one by Spark's workers.

To distribute a batch costs more than to judge a few thousand messages. So a small one comes to the driver,
where the slots are in memory. Both ways leave the slots' states where the other one finds them
(``trigger_svc.states``), so that each batch may go its own way (decision 0026).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from millrace_core.trigger.delay import NS_PER_MS
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import Output
from millrace_core.wire.topics import CLOCK, slot_for
from millrace_wal import Log, Message
from trigger_svc.checkpoint import ends_behind, messages_in
from trigger_svc.lead import Lead
from trigger_svc.query import SINK, in_slots
from trigger_svc.rest import Rest
from trigger_svc.session import compiled
from trigger_svc.settings import TriggerSettings
from trigger_svc.states import SlotStates
from trigger_svc.workers import OUTPUT_SCHEMA, judge_slot, judge_slots, messages_of

SMALL_BYTES = 16 * 1024 * 1024
"""A batch of more is none for the driver; its messages pass the driver's Java heap."""
FIRST_GUESS = 1000.0
"""Bytes of a message before one was seen."""
REMEMBERED = 300
"""Batches; as many as Spark's reports that are kept."""


class BeginAgain(Exception):
    """The query is to begin again, before the batch that was to be judged; no failure."""


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
    ``leaves``: from now on no batch is judged; the next one ends the query with :class:`BeginAgain`.
    """

    def __init__(
        self, settings: TriggerSettings, log: Log, rest: Rest, ticked: Callable[[], int] = lambda: -1
    ) -> None:
        """``ticked``: says which offset in the topic ``clock`` the clock has written last."""
        self._settings, self._log, self._rest, self._ticked = settings, log, rest, ticked
        self.rests = self.leaves = False
        self.rested: deque[int] = deque(maxlen=REMEMBERED)
        self._states = SlotStates(settings.slot_states)
        self._held: dict[int, Held] = {}
        self._bytes_each = FIRST_GUESS
        self.delays_due: Sequence[int] = ()
        self.lead = Lead()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Judge the messages (columns of INPUT) of a batch, send what follows, keep the states.

        It may be called again for the same batch, with the same messages: what is sent then says the same.

        :raises BeginAgain: if the query is to end; nothing was done.
        """
        if self.leaves:
            raise BeginAgain("no failure: the query begins again, to read other topics")
        table = self._collected(frame, batch)
        if table is None:
            self._judge_in_workers(frame, batch)
        elif table.num_rows:
            self._judge_here(messages_of(table), batch)
        slots = [self._hold(number, batch + 1) for number in range(self._settings.slots)]
        self.delays_due = sorted({due for slot in slots for due in slot.delays_due})
        if self.rests and table is not None and _ticks_alone(table):
            self._rest_behind(batch)

    def _rest_behind(self, batch: int) -> None:
        ends = ends_behind(self._settings.checkpoint, batch)
        # to be told of a tick by the broker takes longer than to know of it
        if self._ticked() < ends.get(CLOCK.name, {}).get(0, 0):
            self.rested.append(batch)
            self._rest.until_news(ends)

    def _collected(self, frame: DataFrame, batch: int) -> Any:
        """The messages as an Arrow table; None if they are too many."""
        count = messages_in(self._settings.checkpoint, batch)
        if count > min(self._settings.trigger_small_batch, SMALL_BYTES / self._bytes_each):
            return None
        try:
            table = frame.toArrow()
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
            self._bytes_each = SMALL_BYTES  # far longer messages than so far
            return None
        if table.num_rows:
            self._bytes_each += (table.nbytes / table.num_rows - self._bytes_each) / 8
        return table

    # ------------------------------------------------------------------ in the driver

    def _judge_here(self, messages: Messages, batch: int) -> None:
        sent: list[Output] = []
        for number, mine in by_slot(messages, self._settings.slots):
            held = self._hold(number, batch)
            slots = self._settings.slots
            judged = judge_slot(self._states, batch, held.state, number, slots, mine, held.slot)
            if judged is not None:
                self._held[number] = Held(judged.state, judged.slot)
                sent += judged.sent
        if sent:
            self._log.append([Message(*one) for one in sent])
            if self.delays_due and (ticks := messages.times_of(CLOCK.name)).size:
                self.lead.learn(time.time_ns() - float(ticks.mean()) * NS_PER_MS)

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
        with compiled(frame.sparkSession):
            (
                in_slots(frame, slots)
                .repartitionById(self._settings.trigger_workers, F.col("slot"))
                .mapInArrow(judge_slots(slots, self._states, batch), OUTPUT_SCHEMA)
                .write.format("kafka")
                .options(**SINK)
                .option("kafka.bootstrap.servers", self._settings.broker)
                .save()
            )


def by_slot(messages: Messages, slots: int) -> Iterator[tuple[int, Messages]]:
    """The messages of each slot that gets any, in the order of slots."""
    everywhere: list[int] = []
    places: dict[int, list[int]] = {}
    for place, (topic, key) in enumerate(zip(messages.topic.tolist(), messages.key, strict=True)):
        slot = slot_for(messages.topics[topic], key, slots)
        (everywhere if slot is None else places.setdefault(slot, [])).append(place)
    for slot in range(slots):
        if mine := places.get(slot, []) + everywhere:
            yield slot, messages.take(np.array(mine))


def _ticks_alone(table: Any) -> bool:
    return pc.unique(table.column("topic")).to_pylist() in ([], [CLOCK.name])
