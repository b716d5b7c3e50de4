"""What the query should have read and no topic has any more: Spark passes over it in silence, this does not.

Spark is told not to fail where offsets are missing, for topics go with their tables. So each micro-batch is
compared with its plan: where messages are missing, the topic is asked whether it has forgotten them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PREFIX
from millrace_wal import Gap, GapWatch, Log
from trigger_svc.spark.checkpoint import ends_behind

Touched = Callable[[Gap], tuple[int, ...]]
Firsts = Mapping[tuple[str, int], int]
"""Topic and partition -> the first offset that a batch has of it."""
_OF_ALL = frozenset({REGROUP.name, HANDOVER.name})


class QueryGaps:
    """``touched``: the streams that should have judged what is missing of a WAL topic."""

    def __init__(self, log: Log, checkpoint: Path, touched: Touched, found: Callable[[Gap], None]) -> None:
        self._log, self._checkpoint, self._touched = log, checkpoint, touched
        self._watch = GapWatch(log, "trigger-svc", found=found)

    def check(self, batch: int, table: Any) -> None:
        """``table``: the messages of the batch (Arrow), None if they are not here.

        :raises MillraceError: if the broker cannot be asked.
        """
        for gap in self._gaps(batch, None if table is None else firsts_of(table)):
            streams = () if gap.topic in _OF_ALL else self._touched(gap)
            if streams or gap.topic in _OF_ALL:
                self._watch.tell(gap, streams=streams)

    def _gaps(self, batch: int, firsts: Firsts | None) -> Iterator[Gap]:
        before = ends_behind(self._checkpoint, batch - 1) if batch else {}
        for topic, ends in ends_behind(self._checkpoint, batch).items():
            known = before.get(topic)
            # ticks tell nothing once they are old; control records are trimmed when they say nothing any more
            if topic in (CLOCK.name, CONTROL.name) or (known is None and not topic.startswith(WAL_PREFIX)):
                continue
            starts = {partition: (known or {}).get(partition, 0) for partition in ends}
            missing = [p for p, end in ends.items() if _missing(starts[p], end, (topic, p), firsts)]
            begins = self._begins(topic) if missing else {}
            for partition in missing:
                start, begin = starts[partition], begins.get(partition, 0)
                if begin > start:
                    yield Gap(topic, partition, start, min(begin, ends[partition]))

    def _begins(self, topic: str) -> dict[int, int]:
        try:
            return self._log.begin_offsets(topic)
        except MillraceError as error:
            if error.code is not ErrorCode.UNAVAILABLE or topic in self._log.topics(topic):
                raise
            return {}  # it went with its table


def firsts_of(table: Any) -> Firsts:
    """Of an Arrow table of messages."""
    found = table.group_by(["topic", "partition"]).aggregate([("offset", "min")]).to_pydict()
    keys = zip(found["topic"], found["partition"], strict=True)
    return dict(zip(keys, found["offset_min"], strict=True))


def _missing(start: int, end: int, place: tuple[str, int], firsts: Firsts | None) -> bool:
    return end > start and (firsts is None or firsts.get(place, end) > start)
