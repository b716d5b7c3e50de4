"""What the live path has told of windows since an answer was cut, while the answer waits in the log.

An answer to a request is calculated after all live triggers (decision 0024). By then a window that is made of
rows may have got another end, and some of the windows that the answer retracts may be valid again. The live
loop has already written these. So the live event replaces the answer's event, or follows the answer's
retraction: the topic ``triggers`` is the record of what the live path told (decision 0069).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from millrace_core.calc.overtaking import one_writer
from millrace_core.model.stream import StreamSpec
from millrace_core.recalc.reach import may_vanish
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import ANSWERING, TriggerBatch, TriggerEvent

MOST = 200_000
"""How many windows are remembered."""


def may_be_outdated(spec: StreamSpec) -> bool:
    """Whether an answer about a window of the stream may be outdated when it is calculated: where rows decide
    the ends of windows, or where results are retracted."""
    return may_vanish(spec) or one_writer(spec)


class Latest:
    """The last event that slots have told of each window, for the windows told of most recently. Not
    thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._told: dict[tuple[int, int], dict[int, tuple[Offsets, TriggerEvent]]] = {}
        self._order: dict[tuple[int, int, int], None] = {}

    def hear(self, batch: TriggerBatch) -> None:
        """Take note of what a slot told. The batches of one slot must come in order."""
        if batch.slot < 0:
            return
        for event in batch.events:
            if event.kind not in ("CLOSE", "RETRACT", "INVALID"):
                continue
            self._told.setdefault((batch.stream, event.group.id), {})[event.start] = batch.seen, event
            window = batch.stream, event.group.id, event.start
            self._order.pop(window, None)
            self._order[window] = None
        while len(self._order) > self._most:
            stream, group, start = next(iter(self._order))
            del self._order[stream, group, start]
            told = self._told[stream, group]
            del told[start]
            if not told:
                del self._told[stream, group]

    def corrected(self, batch: TriggerBatch) -> TriggerBatch:
        """An answer, corrected by what the live path has told since the answer's rows were read. Any other
        batch is returned unchanged."""
        if batch.slot != ANSWERING or not self._told:
            return batch
        return msgspec.structs.replace(batch, events=list(self._corrected(batch)))

    def _corrected(self, batch: TriggerBatch) -> Iterator[TriggerEvent]:
        for event in batch.events:
            told = self._told.get((batch.stream, event.group.id))
            if not told:
                yield event
            elif event.kind == "RETRACT":
                yield event
                for start in sorted(start for start in told if event.start <= start <= event.end):
                    if (since := _since(told[start], batch.seen)) is not None and since.kind == "CLOSE":
                        yield since
            elif event.kind == "CLOSE" and event.start in told:
                yield _since(told[event.start], batch.seen) or event
            else:
                yield event


def _since(told: tuple[Offsets, TriggerEvent], seen: Offsets) -> TriggerEvent | None:
    """The event that was told, if its slot had seen more than these offsets."""
    live, event = told
    ahead = [offset - seen.get(partition, 0) for partition, offset in live.items()]
    return event if ahead and min(ahead) >= 0 and max(ahead) > 0 else None
