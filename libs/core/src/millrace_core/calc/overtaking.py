"""One window, calculated by two loops at the same time: the loop that read the rows first may write last.

The loop for live triggers and the loop for history and recalculation run side by side (decision 0024). Each
tells the other which windows it has written. A window that the other one wrote meanwhile is calculated again,
from the rows as they are now. So the rows behind the final result were read after every other result had been
written.

Between an answer and its calculation, the live path may tell of a window anew: see ``recalc.latest``.

Where results are retracted, or shown before their windows close, an event of one window may change the valid
results of others. Such streams have :func:`one_writer` at a time, which cuts the windows, reads their rows
and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from millrace_core.model.stream import StreamSpec
from millrace_core.wire.events import TriggerBatch, TriggerEvent

Batches = Mapping[int, Sequence[TriggerBatch]]
"""What is calculated together, by stream (its uid)."""
_Window = tuple[int, int, int]
"""Stream, group and start."""


def one_writer(spec: StreamSpec) -> bool:
    """Whether an event of one window of the stream may change the valid results of its other windows."""
    emission = spec.emission
    return emission.obsolete == "retracted" or emission.when in ("at_once", "max_delay")


@dataclass(slots=True, eq=False)
class Turn:
    """One turn lasts from before rows are read until their results are in the log. ``meanwhile``: the windows
    that others have written since it began."""

    meanwhile: set[_Window] = field(default_factory=set)


class Turns:
    """The turns that are under way. Not thread-safe."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []

    def begin(self) -> Turn:
        turn = Turn()
        self._turns.append(turn)
        return turn

    def part(self, turn: Turn) -> Turn:
        """Another turn that counts as begun with this one: for the part of the work that goes on when this
        one is over."""
        other = Turn(set(turn.meanwhile))
        self._turns.append(other)
        return other

    def end(self, turn: Turn) -> None:
        """The turn is over, whether anything was written or not. Ending it twice does nothing."""
        self._turns = [other for other in self._turns if other is not turn]

    def written(self, turn: Turn, batches: Batches) -> dict[int, list[TriggerBatch]]:
        """The results of these batches are in the log, and the turn is over. Returns their events whose
        windows others have written since the turn began."""
        # end the turn at once: if two write the same window at the same time, the second to get here learns
        # of it
        self.end(turn)
        if self._turns:
            windows = {_window(uid, event) for uid, event in _events(batches)}
            for other in self._turns:
                other.meanwhile |= windows
        return _only(batches, turn.meanwhile) if turn.meanwhile else {}


def _events(batches: Batches) -> Iterator[tuple[int, TriggerEvent]]:
    return ((uid, event) for uid, some in batches.items() for batch in some for event in batch.events)


def _window(uid: int, event: TriggerEvent) -> _Window:
    return uid, event.group.id, event.start


def _only(batches: Batches, windows: set[_Window]) -> dict[int, list[TriggerBatch]]:
    """The batches reduced to the events of these windows."""
    found: dict[int, list[TriggerBatch]] = {}
    for uid, some in batches.items():
        for batch in some:
            events = [event for event in batch.events if _window(uid, event) in windows]
            if events:
                found.setdefault(uid, []).append(msgspec.structs.replace(batch, events=events))
    return found
