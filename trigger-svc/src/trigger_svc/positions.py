"""Positions in the log: topic -> partition -> the first offset that was not evaluated."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import REGROUP
from millrace_wal import BEGIN, Log, Record
from trigger_svc.ledger.states import Positions
from trigger_svc.messages import INNER, is_rows

Ends = Mapping[str, Mapping[int, int]]
"""Positions that are not to be changed."""
STALL = 30.0
"""Reading up to a position fails after this many seconds without a message."""


def inner_begins(log: Log) -> Positions:
    """Where a deployment that has evaluated nothing begins: at the first records that are still kept."""
    return {topic: log.begin_offsets(topic) for topic in (*INNER, REGROUP.name)}


def copied(positions: Ends) -> Positions:
    return {topic: dict(ends) for topic, ends in positions.items()}


def advance(positions: Positions, ends: Ends) -> None:
    """Move forward to these ends, for the topics that are read."""
    for topic, offsets in ends.items():
        if topic in positions:
            mine = positions[topic]
            for partition, end in offsets.items():
                mine[partition] = max(mine.get(partition, 0), end)


def behind(positions: Ends, ends: Ends, rows: bool = False) -> int:
    """How many offsets lie between the two, in topics that are read; ``rows``: only in those with rows."""
    return sum(
        max(end - positions[topic].get(partition, 0), 0)
        for topic, offsets in ends.items()
        if topic in positions and (is_rows(topic) or not rows)
        for partition, end in offsets.items()
    )


def between(positions: Ends, ends: Ends, topics: Collection[str]) -> tuple[Positions, Positions]:
    """The positions and the ends, only for partitions of these topics that have something in between."""
    starts: Positions = {}
    found: Positions = {}
    for topic in topics:
        for partition, end in ends.get(topic, {}).items():
            start = positions.get(topic, {}).get(partition, 0)
            if end > start:
                starts.setdefault(topic, {})[partition] = start
                found.setdefault(topic, {})[partition] = end
    return starts, found


def fetch(log: Log, starts: Ends, ends: Ends) -> list[Record]:
    """The messages from the starts to the ends, as far as the log still has them: a topic that is gone, or
    was made again and is shorter, has none.

    :raises MillraceError: UNAVAILABLE or TIMEOUT if the broker does not give them.
    """
    if not ends:
        return []
    there = log.ends_of([topic for topic in ends if topic in starts])
    # a topic whose leaders are being elected has no known ends either, but still has all its rows
    untold = (ends.keys() & starts.keys()) - there.keys()
    if untold and not untold.isdisjoint(log.topics()):
        raise MillraceError(
            ErrorCode.UNAVAILABLE,
            f"the broker does not report the end offsets of {', '.join(sorted(untold))}",
        )
    left = {
        (topic, partition): end
        for topic, offsets in ends.items()
        for partition, end in offsets.items()
        if there.get(topic, {}).get(partition, 0) >= end > starts.get(topic, {}).get(partition, 0)
    }
    if not left:
        return []
    begin: Positions = {}
    for topic, partition in left:
        begin.setdefault(topic, {})[partition] = starts.get(topic, {}).get(partition, BEGIN)
    found: list[Record] = []
    with closing(log.reader(begin)) as reader:
        last = time.monotonic()
        while left:
            records = reader.poll(0.2)
            found += [one for one in records if one.offset < left.get((one.topic, one.partition), 0)]
            at = reader.positions()
            done = [place for place, end in left.items() if at[place[0]].get(place[1], 0) >= end]
            for place in done:
                del left[place]
            if records or done:
                last = time.monotonic()
            elif time.monotonic() - last > STALL:
                raise MillraceError(
                    ErrorCode.TIMEOUT,
                    f"no message arrived for {STALL:g} s from {sorted(left)}, which are still to be read",
                )
    return found
