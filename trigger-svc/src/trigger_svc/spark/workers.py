"""The bridge between Spark and the core: Arrow batches of messages in, messages to send out.

The function returned by :func:`judge_slots` runs in Spark's Python workers. Nothing here knows what a message
means.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.rows import Messages, present
from millrace_core.trigger.slot import BatchResult, Slot, evaluate_batch
from millrace_core.trigger.stream import Output
from trigger_svc.ledger.states import Generation, SlotStates

INPUT = ("topic", "partition", "offset", "timestamp", "key", "value")
OUTPUT_SCHEMA = "topic string, key binary, value binary"
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("topic", pa.large_string()),
    ("key", pa.large_binary()),
    ("value", pa.large_binary()),
]

Judge = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def judge_slots(slots: int, states: SlotStates, before: Generation, number: int, most_held: int) -> Judge:
    """The operator for one large batch, in a deployment with that many slots: from Arrow batches of ``slot``
    and INPUT to messages to send, as OUTPUT_SCHEMA. All messages of a slot must come to one worker. It reads
    the states of the generation ``before``, and writes those of the generation ``number``. ``most_held``: how
    much one stream may hold in a slot."""

    def judge(frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's daemon collects garbage after each task; to look through the libraries takes 190 ms
        gc.freeze()
        several = list(frames)
        if not several:
            return
        table = pa.Table.from_batches(several)
        slot, arrived = table.column("slot").to_numpy(), Arrived(table)
        for one in present(slot).tolist():
            mine = arrived.in_order(np.flatnonzero(slot == one))
            judged = judge_slot(states.read(one, before), one, slots, mine, most_held)
            if judged is not None:
                states.write(one, number, judged.state, before)
                yield _batch(judged.sent)

    return judge


def judge_slot(
    state: bytes | None, number: int, slots: int, messages: Messages, most_held: int
) -> BatchResult | None:
    """Judge what a slot gets in a large batch, as :func:`evaluate_batch` does. If the messages mean nothing
    to the slot, does nothing and returns None."""
    if not Slot.heeds(state, messages):
        return None
    judged = evaluate_batch(state, number, slots, messages, most_held=most_held)
    _remark(judged.remarks)
    return judged


class Arrived:
    """Messages from the columns INPUT; the values stay in Arrow until somebody wants them."""

    def __init__(self, table: pa.Table) -> None:
        self._topics, self._topic = _encoded(table.column("topic"))
        self._keys, self._key = _encoded(table.column("key"))
        self._partition, self._offset, self._timestamp = (
            table.column(name).to_numpy().astype(np.int64) for name in ("partition", "offset", "timestamp")
        )
        self._value: Any = table.column("value").combine_chunks()

    def in_order(self, places: Ints) -> Messages:
        """The messages at these places, grouped by topic and in the order of the log. They are sorted while
        they are still in Arrow, which costs less than to sort a list."""
        columns = (self._offset[places], self._partition[places], self._topic[places])
        return self.take(places[np.lexsort(columns)])

    def take(self, places: Ints | None = None) -> Messages:
        """The messages at these places (None: all)."""
        some = slice(None) if places is None else places
        value = self._value if places is None else self._value.take(pa.array(places))
        return Messages(
            self._topics, self._topic[some], self._keys, self._key[some],
            self._partition[some], self._offset[some], self._timestamp[some],
            value.to_numpy(zero_copy_only=False).tolist(),
        )  # fmt: skip


def _encoded(column: Any) -> tuple[list[Any], Ints]:
    """The distinct cells; and for each cell, its place among these."""
    found: Any = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    return found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64)


def _remark(remarks: Iterable[str]) -> None:
    """Write remarks to the service's log, which gets a worker's standard error. If a batch runs again, the
    lines come again, which does not matter."""
    for one in remarks:
        line = json.dumps({"level": "error", "service": "trigger-svc", "event": one})
        sys.stderr.write(f"{line}\n")


def _batch(sent: Sequence[Output]) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        name: pa.array([one[place] for one in sent], kind) for place, (name, kind) in enumerate(_COLUMNS)
    }
    return pa.RecordBatch.from_pydict(columns)
