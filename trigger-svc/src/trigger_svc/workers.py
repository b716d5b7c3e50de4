"""The bridge between Spark and the core: one slot's messages and state in, messages to send and state out.

The function returned by :func:`judge_slot` runs in Spark's Python workers. It knows no semantics.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from millrace_core.trigger.intake import Messages
from millrace_core.trigger.isolation import judge_batch
from millrace_core.trigger.slot import Slot

INPUT = ("slot", "topic", "partition", "offset", "timestamp", "key", "value")
OUTPUT_SCHEMA = "topic string, key binary, value binary"
STATE_SCHEMA = "blob binary"

Judge = Callable[[tuple[int], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def judge_slot(slots: int) -> Judge:
    """The operator for a deployment of so many slots: (slot,), frames of INPUT, state -> frames to send."""

    settled = False

    def judge(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        nonlocal settled
        if not settled:
            # Spark's daemon collects garbage after each task; with the libraries' objects that takes 190 ms
            gc.freeze()
            settled = True
        messages = _messages(list(frames))
        blob = state.get[0] if state.exists else None
        if not Slot.heeds(blob, messages):
            return  # ticks that no stream here waits for: the state is not even read
        judged = judge_batch(blob, int(key[0]), slots, messages)
        state.update((judged.state,))
        for remark in judged.remarks:
            # a worker's standard error is the service's; that a batch runs again does not matter here
            line = json.dumps({"level": "error", "service": "trigger-svc", "event": remark})
            sys.stderr.write(f"{line}\n")
        if judged.sent:
            topic, keys, values = zip(*judged.sent, strict=True)
            yield pd.DataFrame({"topic": topic, "key": keys, "value": values})

    return judge


def _messages(frames: list[pd.DataFrame]) -> Messages:
    def ints(name: str) -> Any:
        return np.concatenate([frame[name].to_numpy(dtype=np.int64) for frame in frames])

    def cells(name: str) -> list[Any]:
        return [cell for frame in frames for cell in frame[name].tolist()]

    return Messages(
        cells("topic"), ints("partition"), ints("offset"), ints("timestamp"), cells("key"), cells("value")
    )
