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

from millrace_core.trigger.intake import Messages
from millrace_core.trigger.isolation import Judged, judge_batch
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import Output
from trigger_svc.states import SlotStates

INPUT = ("topic", "partition", "offset", "timestamp", "key", "value")
OUTPUT_SCHEMA = "topic string, key binary, value binary"
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("topic", pa.large_string()),
    ("key", pa.large_binary()),
    ("value", pa.large_binary()),
]

Judge = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def judge_slots(slots: int, states: SlotStates, batch: int) -> Judge:
    """The operator for one micro-batch of a deployment of so many slots: Arrow batches of ``slot`` and INPUT
    to messages to send, as OUTPUT_SCHEMA. All messages of a slot must come to one worker."""

    def judge(frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's daemon collects garbage after each task; with the libraries' objects that takes 190 ms
        gc.freeze()
        several = list(frames)
        if not several:
            return
        table = pa.Table.from_batches(several)
        slot, messages = table.column("slot").to_numpy(), messages_of(table)
        numbers = np.flatnonzero(np.bincount(slot)).tolist()
        for number in numbers:
            mine = messages.take(np.flatnonzero(slot == number)) if len(numbers) > 1 else messages
            judged = judge_slot(states, batch, states.read(number, batch), number, slots, mine)
            if judged is not None:
                yield _batch(judged.sent)

    return judge


def judge_slot(
    states: SlotStates, batch: int, state: bytes | None, number: int, slots: int, messages: Messages,
    slot: Slot | None = None,
) -> Judged | None:  # fmt: skip
    """Judge what a slot gets in a micro-batch, as :func:`judge_batch` does, and keep its state; None, and
    nothing done, if it means nothing to the slot."""
    if not Slot.heeds(state, messages):
        return None
    judged = judge_batch(state, number, slots, messages, slot)
    states.write(number, batch, judged.state)
    _remark(judged.remarks)
    return judged


def messages_of(table: pa.Table) -> Messages:
    """Messages of the columns INPUT."""
    topic: Any = pc.dictionary_encode(table.column("topic").combine_chunks())
    cells: dict[str, Any] = {name: table.column(name).to_numpy().tolist() for name in ("key", "value")}
    ints: dict[str, Any] = {
        name: table.column(name).to_numpy().astype(np.int64) for name in ("partition", "offset", "timestamp")
    }
    return Messages(topic.dictionary.to_pylist(), topic.indices.to_numpy(), **ints, **cells)


def _remark(remarks: Iterable[str]) -> None:
    """What is worth a line of the service's log. A worker's standard error is the service's; that a batch
    runs again does not matter here."""
    for one in remarks:
        line = json.dumps({"level": "error", "service": "trigger-svc", "event": one})
        sys.stderr.write(f"{line}\n")


def _batch(sent: Sequence[Output]) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        name: pa.array([one[place] for one in sent], kind) for place, (name, kind) in enumerate(_COLUMNS)
    }
    return pa.RecordBatch.from_pydict(columns)
