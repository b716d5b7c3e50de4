"""From occurrences to trigger events: which kinds a stream wants, in which order, under which ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from millrace_core.model.stream import StreamSpec
from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    DELAY,
    HISTORY,
    INVALID,
    LIVE,
    ON_TIME,
    OPEN,
    RECALC,
    RETRACT,
    Occurrences,
)
from millrace_core.wire.events import Cause, EventKind, Group, TriggerEvent, trigger_ids

_KINDS: dict[str, int] = {"WINDOW_OPEN": OPEN, "WINDOW_CLOSE": CLOSE}
_NAMES: dict[int, EventKind] = {
    OPEN: "OPEN",
    CLOSE: "CLOSE",
    ON_TIME: "ON_TIME",
    INVALID: "INVALID",
    RETRACT: "RETRACT",
}
_CAUSES: dict[int, Cause] = {LIVE: "LIVE", RECALC: "RECALC", DELAY: "DELAY", HISTORY: "HISTORY"}
_ALWAYS = frozenset({ON_TIME, INVALID})
"""Kinds that EVENT_TYPE and ON do not choose."""


@dataclass(frozen=True, slots=True)
class Emission:
    """What a stream tells: the kinds in EVENT_TYPE and in NOTIFY's ON (either may need an event)."""

    stream: int
    kinds: frozenset[int]

    @staticmethod
    def of(spec: StreamSpec) -> Emission:
        wanted = spec.options.event_types + (spec.notify.events if spec.notify else ())
        kinds = _ALWAYS | {_KINDS[kind] for kind in wanted if kind in _KINDS}
        return Emission(spec.uid, kinds | {RETRACT} if spec.emission.obsolete == "retracted" else kinds)

    def arrange(self, found: Occurrences) -> Occurrences:
        """The wanted occurrences: by group, within a group by what caused them, then by their instant.

        A window that several late rows of the batch touched is recalculated once, after the last of them.
        """
        if not len(found):
            return found
        # MAX_DELAY calculates whatever EVENT_TYPE says
        found = found.take(np.isin(found.kind, list(self.kinds)) | (found.cause == DELAY))
        if OPEN not in self.kinds:
            # nobody has been told of a window that is still open
            found = found.take((found.kind != INVALID) | (found.cause == RECALC))
        instant = np.where(found.kind == OPEN, found.start, found.end)
        # a window that begins and ends with the same row opens before it closes
        turn = np.where((found.kind == CLOSE) & (found.start == found.end), OPEN + 0.5, found.kind)
        turn[found.kind == RETRACT] = -1
        found = found.take(np.lexsort((turn, instant, found.step, found.group)))
        again = found.cause == RECALC
        if not again.any():
            return found
        order = np.lexsort((found.step, found.kind, found.start, found.group, again))
        next_ = found.take(order)
        repeated = np.zeros(len(found), dtype=bool)
        repeated[order[:-1]] = (
            (next_.cause[:-1] == RECALC)
            & (next_.cause[1:] == RECALC)
            & (next_.group[1:] == next_.group[:-1])
            & (next_.start[1:] == next_.start[:-1])
            & (next_.end[1:] == next_.end[:-1])
            & (next_.kind[1:] == next_.kind[:-1])
        )
        return found.take(~repeated)

    def events(
        self, found: Occurrences, group: Callable[[int], Group], written: Sequence[int] | Ints
    ) -> list[TriggerEvent]:
        """Events of arranged occurrences. ``written[step]``: Kafka's timestamp (ms) of a step's cause."""
        whose: list[Group] = []
        last, current = -1, Group(0, (), None)
        for index in found.group.tolist():
            if index != last:
                last, current = index, group(index)
            whose.append(current)
        # an instant is identified by its own time, a window by its start
        known_by = np.where(found.kind == ON_TIME, found.end, found.start).tolist()
        ids = trigger_ids(self.stream, [one.id for one in whose], known_by)
        for place in np.flatnonzero(found.kind == RETRACT).tolist():
            ids[place] = ""  # it is about many windows
        kinds = map(_NAMES.__getitem__, found.kind.tolist())
        causes = map(_CAUSES.__getitem__, found.cause.tolist())
        times = np.asarray(written, dtype=np.int64)[found.step] * NS_PER_MS
        arrays = (found.start, found.end, found.rownum, times, found.next, found.detail)
        return list(map(TriggerEvent, ids, kinds, causes, whose, *(array.tolist() for array in arrays)))
