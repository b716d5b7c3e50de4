"""Routes of rows: which messages belong to a stream, and how rows reach their group's slot (decision
0005)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from millrace_core.trigger.groups.columns import Ints, starts_of
from millrace_core.trigger.groups.watermark import Arrivals
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import regroup
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.regroup import Regrouped
from millrace_core.wire.topics import REGROUP

Received = Sequence[tuple[int, Regrouped]]
"""What other slots sent: (partition of the regroup topic, message), in order."""


class Routes:
    """See the module."""

    def __init__(self, state: StreamState) -> None:
        self.state = state

    def wants(self, messages: Messages) -> Any:
        """bool[messages]: those that trigger this stream."""
        return self._since(messages, self.state.life.live_from)

    def missed(self, messages: Messages) -> Any:
        """bool[messages]: those that would have triggered it while it was stopped, if deletes and rewritten
        rows from that time count."""
        life = self.state.life
        if not life.missed_from:
            return np.zeros(len(messages), dtype=bool)
        mask = self._since(messages, life.missed_from)
        return mask & ~self._since(messages, life.live_from) if life.running else mask

    def _since(self, messages: Messages, begin: Offsets) -> Any:
        if len(messages) and messages.partition[0] == messages.partition[-1]:
            mask = messages.offset >= begin.get(int(messages.partition[0]), 0)
        else:
            last = int(messages.partition.max(initial=0))
            floor = np.array([begin.get(partition, 0) for partition in range(last + 1)], dtype=np.int64)
            mask = messages.offset >= floor[messages.partition]
        single = self.state.definition.single
        if single is not None:
            # a normal table's messages may come without a key
            names = (
                {None, single.encode()} if self.state.definition.table.kind == "normal" else {single.encode()}
            )
            mask &= messages.keyed(names)
        return mask

    # ------------------------------------------------------------------ to other slots

    def send(
        self, group: Group, table: bytes, seen: Offsets, written: int, ts: bytes = b"", **more: Any
    ) -> Output:
        """A message to the slot of a group. ``ts``: times of rows, as bytes; ``more``: other fields."""
        state = self.state
        state.life.sent += 1
        message = Regrouped(
            state.uid, state.life.epoch, state.slot, state.life.sent, group,
            table.decode("utf-8", "replace"), seen, written, ts, **more,
        )  # fmt: skip
        return REGROUP.name, regroup.key(state.uid, group.id), regroup.encode(message)

    def send_on(
        self, rows: Arrivals, written: Ints, seen: Offsets, table: Callable[[int], bytes]
    ) -> Iterator[Output]:
        """Send each row to the slot of its group. ``table``: gives the name of a row's table."""
        if not len(rows.group):
            return
        begins = starts_of(rows.group).tolist()
        for begin, end in zip(begins, [*begins[1:], len(rows.group)], strict=True):
            group = self.state.passing.get(int(rows.group[begin]))
            name = table(begin)
            ts = rows.ts[begin:end].astype("<i8").tobytes()
            yield self.send(group, name, seen, int(written[begin:end].max()), ts)

    # ------------------------------------------------------------------ from other slots

    def unseen(self, received: Received) -> Iterator[Regrouped]:
        """The messages that have not come before. A message that is sent again after a restart has a number
        that was already seen: within a partition of the topic, the numbers of one sender only grow."""
        for partition, message in received:
            numbers = self.state.life.received.setdefault(partition, {})
            if message.number > numbers.get(message.slot, 0):
                numbers[message.slot] = message.number
                yield message

    def rows_of(self, received: Received) -> tuple[Arrivals, Ints] | None:
        """The rows that other slots sent, and when each was written; None if there are none. Tables reach a
        group in no guaranteed order, so the rows of a batch are sorted by time: then fewer are late."""
        life = self.state.life
        fresh: list[Regrouped] = []
        for message in self.unseen(received):
            if message.epoch == life.epoch:
                fresh.append(message)
                for wal_partition, offset in message.seen.items():
                    life.seen[wal_partition] = max(offset, life.seen.get(wal_partition, 0))
        if not fresh:
            return None
        parts = [np.frombuffer(message.ts, dtype="<i8") for message in fresh]
        sizes = [len(part) for part in parts]
        group = np.repeat([self.state.place_of(message.group) for message in fresh], sizes)
        ts = np.concatenate(parts).astype(np.int64)
        written = np.repeat([message.written for message in fresh], sizes)
        order = np.lexsort((ts, group))
        return Arrivals(group[order], ts[order]), written[order]
