"""What should have been read but is no longer in the topic: it is reported, never skipped silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.trigger.rows import Messages
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP
from millrace_wal import Gap, GapWatch, Log
from trigger_svc.metrics import count_lost
from trigger_svc.positions import Ends

_OF_ALL = frozenset({REGROUP.name, HANDOVER.name})


class Missing:
    """``touched``: names the streams that should have evaluated what is missing in a WAL topic."""

    def __init__(self, log: Log, touched: Callable[[Gap], tuple[int, ...]]) -> None:
        self._log, self._touched = log, touched
        self._watch = GapWatch(log, "trigger-svc", found=count_lost)

    def look(self, messages: Messages | None, positions: Ends, ends: Ends) -> None:
        """Report what is missing between the positions and the ends. ``messages``: what has come from there;
        None if it is not in this process.

        :raises MillraceError: if the broker cannot be asked or told.
        """
        for gap in self._gaps(messages, positions, ends):
            streams = () if gap.topic in _OF_ALL else self._touched(gap)
            if streams or gap.topic in _OF_ALL:
                self._watch.tell(gap, streams=streams)

    def _gaps(self, messages: Messages | None, positions: Ends, ends: Ends) -> Iterator[Gap]:
        for topic, offsets in ends.items():
            # old ticks no longer matter; control records are only trimmed once they no longer matter
            if topic in (CLOCK.name, CONTROL.name):
                continue
            starts = {partition: positions.get(topic, {}).get(partition, 0) for partition in offsets}
            late = [p for p, end in offsets.items() if end > starts[p] < _first(messages, topic, p, end)]
            begins = self._begins(topic) if late else {}
            for partition in late:
                start, begin = starts[partition], begins.get(partition, 0)
                if begin > start:
                    yield Gap(topic, partition, start, min(begin, offsets[partition]))

    def _begins(self, topic: str) -> dict[int, int]:
        try:
            return self._log.begin_offsets(topic)
        except MillraceError as error:
            if error.code is not ErrorCode.UNAVAILABLE or topic in self._log.topics(topic):
                raise
            return {}  # the topic is gone with its table


def _first(messages: Messages | None, topic: str, partition: int, end: int) -> int:
    """The first offset that has come from a partition; ``end`` if none has."""
    if messages is None or topic not in messages.topics:
        return end
    mine = (messages.topic == messages.topics.index(topic)) & (messages.partition == partition)
    return int(np.min(messages.offset[mine], initial=end))
