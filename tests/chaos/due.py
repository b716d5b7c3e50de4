"""What must be stored in the end, of tables and streams. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing as closed_after

from tests.chaos.changes import ROWS_A_MESSAGE, Change
from tests.chaos.oracle import Oracle, Result, Stored
from tests.chaos.plan import STREAMS
from tests.chaos.streams import Stream
from tests.chaos.workload import site_of

TABLES = ("meters", "ticks")


class Due:
    """What must be there: of the tables that are written, which nobody writes any more, once; of nested
    streams whenever it is asked for. ``made``: where the topics ended when a stream with history was made."""

    def __init__(self, logs: Mapping[str, Sequence[Change]], made: Mapping[str, Mapping[int, int]]) -> None:
        self.stored: dict[str, Stored] = {}
        self._known: dict[str, list[Result]] = {}
        for table in TABLES:
            with closed_after(Oracle(logs[table], site_of)) as oracle:
                self.stored[table] = oracle.stored()
                for stream in STREAMS:
                    if stream.source == table:
                        ends = made.get(stream.name, {})
                        before = places(ends, logs[table]) if stream.begins else None
                        self._known[stream.name] = oracle.expected(stream, before)

    def of(self, stream: Stream, log: Sequence[Change]) -> list[Result]:
        if not stream.nested:
            return self._known[stream.name]
        with closed_after(Oracle(log, lambda _: 0, "n")) as oracle:
            return oracle.expected(stream)


def places(ends: Mapping[int, int], own: Iterable[Change]) -> dict[str, int]:
    """Child -> the place that its changes had reached when its partition ended there."""
    return {one.child: ends.get(one.partition, 0) * ROWS_A_MESSAGE for one in own}
