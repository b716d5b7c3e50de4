"""A batch of a slot, whatever single streams do in it.

The slot runs the batch as if nothing could fail. If streams raise, all that it did is thrown away: the state
before the batch is there, as the bytes that came in, and the batch runs again with these streams set aside.
So the good case costs nothing, and the others give what they would give without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.blame import StreamsFail
from millrace_core.trigger.slot.holdings import MOST
from millrace_core.trigger.slot.slot import NOTHING, Slot
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire.control import Offsets


@dataclass(frozen=True, slots=True)
class BatchResult:
    """``sent``: messages, in order; ``state``: for the next batch; ``remarks``: what is worth a line of the
    service's log; ``slot``: what the next batch may be evaluated by without reading the state, if
    anything."""

    sent: list[Output]
    state: bytes
    remarks: tuple[str, ...]
    slot: Slot | None = None


def evaluate_batch(
    state: bytes | None, number: int, slots: int, messages: Messages, slot: Slot | None = None,
    most_held: int = MOST, again: Mapping[str, Offsets] = NOTHING,
) -> BatchResult:  # fmt: skip
    """Evaluate one micro-batch of the slot ``number`` of ``slots``; ``state``: what the batch before left;
    ``slot``: the slot in this state, if there is one: it is used up; ``most_held``: see ``slot.holdings``;
    ``again``: as in :meth:`Slot.on_batch`.

    :raises ValueError: if the state was written by a newer version.
    :raises StreamsFail: if streams raise that take no part in the batch any more: it is the slot's own fault.
    """
    aside: dict[int, str] = {}
    absent: dict[int, str] = {}
    while True:
        if slot is None:
            slot = Slot(number, slots) if state is None else Slot.restore(state, absent)
        slot.contents.most_held = most_held
        try:
            sent = slot.on_batch(messages, aside, absent, again)
            after = slot.snapshot()
        except StreamsFail as failed:
            slot = None
            twice = failed.causes.keys() & aside.keys()
            if failed.causes.keys() <= absent.keys():
                raise
            # one that cannot even be stopped stays out of the slot in this batch, its state as it is
            absent |= {uid: aside[uid] for uid in twice}
            aside |= {uid: cause for uid, cause in failed.causes.items() if uid not in twice}
            continue
        # one that left streams out has them as bytes alone
        return BatchResult(
            sent, after, tuple(dict.fromkeys(slot.contents.refused.remarks)), None if absent else slot
        )
