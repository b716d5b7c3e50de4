"""Runs a batch of a slot, even if single streams fail in it.

The slot runs the batch as if nothing could fail. If streams raise, all that it did is thrown away: the state
before the batch still exists as the bytes that came in, and the batch runs again with these streams set
aside. So the good case costs nothing, and the other streams give what they would give without the failing
ones.

A slot that stays in memory (:class:`RunningSlot`) makes bytes only when they are to be kept: making them
after each message would cost more than evaluating it. It remembers what came since the last snapshot. If a
stream raises, the slot is made anew from the snapshot and takes the same batches again, each from bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.blame import StreamsFail
from millrace_core.trigger.slot.holdings import MOST
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.slot.slot import NOTHING, Slot
from millrace_core.trigger.slot.state import wanting
from millrace_core.trigger.stream.delay import upcoming
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire.control import Offsets


@dataclass(frozen=True, slots=True)
class BatchResult:
    """``sent``: messages, in order. ``state``: for the next batch. ``remarks``: what is worth a line in the
    service's log. ``slot``: a slot that can evaluate the next batch without reading the state, if there is
    one."""

    sent: list[Output]
    state: bytes
    remarks: tuple[str, ...]
    slot: Slot | None = None


def evaluate_batch(
    state: bytes | None, number: int, slots: int, messages: Messages, slot: Slot | None = None,
    most_held: int = MOST, again: Mapping[str, Offsets] = NOTHING,
) -> BatchResult:  # fmt: skip
    """Evaluate one micro-batch of the slot ``number`` of ``slots``; ``state``: what the batch before left.
    ``slot``: the slot in this state, if there is one; it must not be used afterwards. ``most_held``: see
    ``slot.holdings``. ``again``: as in :meth:`Slot.on_batch`.

    :raises ValueError: if the state was written by a newer version.
    :raises StreamsFail: if streams raise that no longer take part in the batch: then the slot itself is at
        fault.
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
            # a stream that cannot even be stopped stays out of the slot in this batch, with its state
            # unchanged
            absent |= {uid: aside[uid] for uid in twice}
            aside |= {uid: cause for uid, cause in failed.causes.items() if uid not in twice}
            continue
        # a slot that left streams out has them only as bytes: it is not used again
        return BatchResult(
            sent, after, tuple(dict.fromkeys(slot.contents.refused.remarks)), None if absent else slot
        )


MOST_REMEMBERED = 20_000
"""After this many messages since the last snapshot, another one is made in memory."""
Batch = tuple[Messages, Mapping[str, Offsets]]
"""Messages, and which of them came before (``again`` of :meth:`Slot.on_batch`)."""


class RunningSlot:
    """The slot ``number`` of ``slots``, in this state (None: it has none yet). ``most_held``: see
    ``slot.holdings``.

    ``changed``: whether anything has been evaluated since :meth:`snapshot`. ``remarks``: what is worth a line
    in the service's log; the caller takes it from here.
    """

    def __init__(self, state: bytes | None, number: int, slots: int, most_held: int = MOST) -> None:
        self.number, self._slots, self._most_held = number, slots, most_held
        self._state = state
        self._slot: Slot | None = None
        self._since: list[Batch] = []
        self._remembered = 0
        """The number of messages in these batches."""
        self._timed = _Timed()
        self.changed = False
        self.remarks: list[str] = []
        self.delays_due: list[int] = [] if state is None else Slot.delays_due(state)

    def evaluate(self, messages: Messages, again: Mapping[str, Offsets] = NOTHING) -> list[Output]:
        """Take in a batch; returns what to send, in order. Does nothing if the batch means nothing to the
        slot.

        :raises StreamsFail: as :func:`evaluate_batch`.
        """
        if not self._heeds(messages):
            return []
        self.changed = True
        slot = self._slot or self._made()
        try:
            sent = slot.on_batch(messages, again=again)
        except StreamsFail:
            return self._one_by_one([*self._since, (messages, again)])
        self.remarks += dict.fromkeys(slot.contents.refused.remarks)
        self._slot = slot
        self._since.append((messages, again))
        self._remembered += len(messages)
        self.delays_due = self._timed.due(slot)
        return sent

    def snapshot(self) -> tuple[bytes | None, list[Output]]:
        """The state, and further messages to send. There are such if a stream could be evaluated but cannot
        be encoded: it is set aside in the latest batches, which are evaluated again and repeat their
        messages.

        :raises StreamsFail: as :func:`evaluate_batch`.
        """
        self.changed = False
        if not self._since:
            return self._state, []
        assert self._slot is not None, "what was remembered was evaluated by it"
        try:
            self._state = self._slot.snapshot()
        except StreamsFail:
            sent = self._one_by_one(self._since)
            self.changed = False
            return self._state, sent
        self._since, self._remembered = [], 0
        return self._state, []

    def spare(self) -> list[Output]:
        """Make a snapshot in memory if many messages are remembered. Returns what to send, as
        :meth:`snapshot` does."""
        if self._remembered <= MOST_REMEMBERED:
            return []
        _, sent = self.snapshot()
        self.changed = True
        return sent

    def _heeds(self, messages: Messages) -> bool:
        if self._slot is None:
            return Slot.heeds(self._state, messages)
        return wanting(self._slot.contents, messages)

    def _made(self) -> Slot:
        state = self._state
        slot = Slot(self.number, self._slots) if state is None else Slot.restore(state)
        slot.contents.most_held = self._most_held
        return slot

    def _one_by_one(self, batches: Sequence[Batch]) -> list[Output]:
        """Evaluate these batches, which came since the last snapshot, from bytes, even if single streams fail
        in them. Returns what they send. Batches that were evaluated before repeat their messages, with the
        same numbers and ids."""
        self._slot, self._since, self._remembered = None, [], 0
        sent: list[Output] = []
        for messages, again in batches:
            found = evaluate_batch(
                self._state, self.number, self._slots, messages, self._slot, self._most_held, again
            )
            self._state, self._slot = found.state, found.slot
            self.remarks += found.remarks
            sent += found.sent
        self.delays_due = [] if self._state is None else Slot.delays_due(self._state)
        return sent


class _Timed:
    """The streams of a running slot that wait for time. Which these are, only control records change."""

    def __init__(self) -> None:
        self._of: tuple[Slot, int] | None = None
        self._streams: list[AnyStream] = []

    def due(self, slot: Slot) -> list[int]:
        """As :func:`state.delays_due`."""
        contents = slot.contents
        if self._of is None or self._of[0] is not slot or self._of[1] != contents.control:
            every = contents.streams.values()
            self._of = slot, contents.control
            self._streams = [stream for stream in every if stream.state.definition.waits_for_time]
        due = [stream.state.all_due for stream in self._streams if stream.live]
        found: list[int] = upcoming(np.concatenate(due)).tolist() if due else []
        return found


def in_order(due: Iterable[int]) -> list[int]:
    """When (ns, ascending) the next open windows of several slots are due."""
    return sorted(set(due))
