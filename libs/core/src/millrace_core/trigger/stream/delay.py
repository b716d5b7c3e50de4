"""MAX_DELAY: an open window triggers each time that much processing time has passed (seed 000).

It works with every type of window: after each batch the windower says which windows are open
(:meth:`Windower.so_far`). Each is remembered with the time at which it opened: that of the message that
opened it. Only ticks make it fire. If several delays have come due at once (because the service was away, or
slow), it fires once. The window stays as it is, and nobody is told that it closed.

Time passes between a tick and the event that it causes, and a tick for each window would keep the service
from its rows. So a tick is written some time before a window is due, and also fires the windows that are due
soon after (``Tick.early``, :data:`APART`): events are a little early or a little late, rather than always
late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.model.stream import StreamSpec
from millrace_core.timeline.precision import NS_PER_MS, duration_ns
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints, starts_of
from millrace_core.trigger.types import type_of
from millrace_core.trigger.types.occurrences import CLOSE, DELAY, LIVE, OPEN, Occurrences
from millrace_core.trigger.types.windower import Windower

FAR = (1 << 63) - 1
"""A processing time that never comes."""
LONGEST = 1 << 62
"""ns, 146 years: a longer MAX_DELAY waits only this long, because the time of the trigger would exceed
int64."""
APART = 75 * NS_PER_MS
"""Windows that are due within this time (ns) after the first one share its tick."""
AHEAD = 32
"""A slot tells the times of this many of the next ticks. With :data:`APART` they reach about two seconds
ahead: further than a micro-batch and the clock's longest wait together, so that the clock always knows the
next one."""


class Opened(msgspec.Struct, array_like=True):
    """An open window; ``due``: when it triggers next, ns."""

    start: int
    due: int


class DelayMemory(msgspec.Struct, array_like=True):
    """The open windows of a group."""

    open: list[Opened] = []


def delay_of(spec: StreamSpec) -> int | None:
    """MAX_DELAY in ns; None where it has no effect.

    Instants have no windows (seed 000). EVENT_TYPE does not matter: a stream that calculates only at openings
    also calculates at every delay (SEMANTICS, "Options").
    """
    options = spec.options
    if options.max_delay is None or not type_of(spec.trigger).window:
        return None
    return min(duration_ns(options.max_delay), LONGEST)


@dataclass(frozen=True, slots=True)
class Delay:
    """Follows the open windows of a stream's groups in :class:`Columns` of :class:`DelayMemory`.

    ``every``: ns.
    """

    every: int
    windower: Windower

    def follow(
        self, memory: Columns, windows: Columns, groups: Iterable[int], found: Occurrences, written: Ints
    ) -> None:
        """A batch touched these groups: remember the windows that opened, forget those that no longer exist.

        ``found``: what the windower told; ``written[step]``: Kafka's timestamp (ms) of a step's cause. A
        window whose opening was not told (TRUE_FOR) counts as opened by the batch's last message.
        """
        told = (found.kind == OPEN) & (found.cause == LIVE)
        places = zip(found.group[told].tolist(), found.start[told].tolist(), strict=True)
        opened = dict(zip(places, written[found.step[told]].tolist(), strict=True))
        last = int(written.max()) if len(written) else 0
        changed: dict[int, msgspec.Struct] = {}
        for group in groups:
            before = memory.get(group)
            assert isinstance(before, DelayMemory)
            known = {window.start: window.due for window in before.open}
            after: list[Opened] = []
            for start, _, _ in self.windower.so_far(windows.get(group)):
                at = opened.get((group, start), last) * NS_PER_MS
                after.append(Opened(start, known.get(start, at + self.every)))
            if after != before.open:
                changed[group] = DelayMemory(after)
        if changed:
            memory.put(changed)

    def due(self, memory: Columns) -> int:
        """When the next open window triggers; FAR if none is open."""
        due = memory.lists["open"]["due"]
        return int(due.min()) if len(due) else FAR

    @staticmethod
    def all_due(memory: Columns) -> Ints:
        """When each open window triggers next, ns, in no order."""
        due: Ints = memory.lists["open"]["due"]
        return due

    def fire(self, memory: Columns, windows: Columns, reach: int) -> Occurrences:
        """The windows that are due up to ``reach`` (ns), all at step 0. Each is due again after its next
        delay."""
        table = memory.lists["open"]
        ready = table["due"] <= reach
        owner, start = table[OWNER][ready], table["start"][ready]
        steps = (reach - table["due"]) // self.every + 1
        table["due"] = np.where(ready, table["due"] + steps * self.every, table["due"])
        found: list[tuple[int, int, int, int]] = []
        for group in np.unique(owner).tolist():
            mine = set(start[owner == group].tolist())
            found += [(group, *window) for window in self.windower.so_far(windows.get(group))
                      if window.start in mine]  # fmt: skip
        columns = (_ints(column) for column in (zip(*found, strict=True) if found else ([],) * 4))
        group_, start, end, rownum = columns
        return Occurrences.of(group_, np.zeros_like(group_), CLOSE, start, end, rownum, DELAY)


def upcoming(due: Ints) -> Ints:
    """Of all times at which windows are due, those of the first window of each of the next ticks (at most
    :data:`AHEAD`), in ns, ascending."""
    if not len(due):
        return due
    first = due.min()
    near = np.sort(due[due < first + AHEAD * APART])
    begins: Ints = near[starts_of((near - first) // APART)]
    return begins


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
