"""One window, calculated by two loops at a time: who read the rows first may write last.

The loop of what is live and the one of history and recalculation go on side by side (decision 0024). Each
tells the other which windows it has written; a window that the other one wrote meanwhile is calculated
again, from the rows as they are now. So the result that stands in the end has read its rows after every other
one was written.

A window that is shown before it closes has an end that moves on. An answer says where that was when its rows
were read; what is live may have told of the window since. Then its word goes instead of the answer's.

Where results are taken back, or shown before their windows close, a word about one window changes what stands
of others. The streams that do so have :func:`one_writer` at a time, which cuts the windows, reads their rows
and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from millrace_core.model.stream import StreamSpec
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import ANSWERING, TriggerBatch, TriggerEvent

Batches = Mapping[int, Sequence[TriggerBatch]]
"""What is calculated together: by stream (its uid)."""
MOST_SHOWN = 100_000
"""Windows of which it is known what was told of them last."""
_Window = tuple[int, int, int]
"""Stream, group and start."""


def one_writer(spec: StreamSpec) -> bool:
    """Whether what is told of a window of the stream may change what stands of its others."""
    emission = spec.emission
    return emission.obsolete == "retracted" or emission.when in ("at_once", "max_delay")


@dataclass(slots=True, eq=False)
class Turn:
    """From before rows are read until their results are in the log. ``meanwhile``: what others have written
    since it began."""

    meanwhile: set[_Window] = field(default_factory=set)


class Turns:
    """Those that are under way. Not thread-safe."""

    def __init__(self, most_shown: int = MOST_SHOWN) -> None:
        self._turns: list[Turn] = []
        self._most_shown = most_shown
        self._shown: dict[_Window, tuple[Offsets, TriggerEvent]] = {}
        """What is live has told last of windows that have not closed, and what it had seen then."""

    def begin(self) -> Turn:
        turn = Turn()
        self._turns.append(turn)
        return turn

    def end(self, turn: Turn) -> None:
        """The turn is over, whether anything was written or not; nothing happens if it was before."""
        self._turns = [other for other in self._turns if other is not turn]

    def written(self, turn: Turn, batches: Batches) -> dict[int, list[TriggerBatch]]:
        """The results of these batches are in the log: those events of them whose windows others have written
        since the turn began. The turn is over."""
        self._note_shown(batches)
        # at once: of two that write the same at a time, the one that comes here second is told of it
        self.end(turn)
        if self._turns:
            windows = {_window(uid, event) for uid, event in _events(batches)}
            for other in self._turns:
                other.meanwhile |= windows
        return _only(batches, turn.meanwhile) if turn.meanwhile else {}

    def _note_shown(self, batches: Batches) -> None:
        for uid, some in batches.items():
            for batch in some:
                for event in batch.events if batch.slot != ANSWERING else ():
                    window = _window(uid, event)
                    known = self._shown.pop(window, None)
                    if _is_shown(event):
                        older = known is not None and not _is_newer(batch.seen, known[0])
                        self._shown[window] = known if known is not None and older else (batch.seen, event)
        while len(self._shown) > self._most_shown:
            del self._shown[next(iter(self._shown))]

    def freshened(self, batches: Batches) -> Batches:
        """These batches, where answers have windows as they are shown with what is live has told of them
        since."""
        return {uid: [self._freshened(uid, batch) for batch in some] for uid, some in batches.items()}

    def _freshened(self, uid: int, batch: TriggerBatch) -> TriggerBatch:
        if batch.slot != ANSWERING or not self._shown:
            return batch
        events = [self._live(uid, batch.seen, event) for event in batch.events]
        return msgspec.structs.replace(batch, events=events)

    def _live(self, uid: int, seen: Offsets, event: TriggerEvent) -> TriggerEvent:
        known = self._shown.get(_window(uid, event)) if _is_shown(event) else None
        return event if known is None or not _is_newer(known[0], seen) else known[1]


def _is_shown(event: TriggerEvent) -> bool:
    """Whether it tells of a window that may not have closed."""
    return event.kind == "CLOSE" and event.cause == "DELAY"


def _is_newer(live: Offsets, other: Offsets) -> bool:
    """Whether a slot, which has seen what is its own, had rows that another reader had not."""
    return bool(live) and all(offset >= other.get(partition, 0) for partition, offset in live.items())


def _events(batches: Batches) -> Iterator[tuple[int, TriggerEvent]]:
    return ((uid, event) for uid, some in batches.items() for batch in some for event in batch.events)


def _window(uid: int, event: TriggerEvent) -> _Window:
    return uid, event.group.id, event.start


def _only(batches: Batches, windows: set[_Window]) -> dict[int, list[TriggerBatch]]:
    """What of the batches is of these windows."""
    found: dict[int, list[TriggerBatch]] = {}
    for uid, some in batches.items():
        for batch in some:
            events = [event for event in batch.events if _window(uid, event) in windows]
            if events:
                found.setdefault(uid, []).append(msgspec.structs.replace(batch, events=events))
    return found
