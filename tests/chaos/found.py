"""What of a stream is right, from its trigger table's changes and its output. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from tests.chaos.changes import Change
from tests.chaos.judge import Verdict, judge
from tests.chaos.oracle import Result
from tests.chaos.replay import Made, could_not_be, empty_by_right, never_was
from tests.chaos.streams import Stream
from tests.chaos.workload import site_of


def verdict(
    stream: Stream,
    expected: Sequence[Result],
    changes: Sequence[Change],
    found: Iterable[Result],
    made: Mapping[str, Made] | None = None,
) -> Verdict:
    """Holds an output table against the oracle's results; ``changes``: those of its trigger table. ``made``:
    of a stream that began with history, child -> when. Of a stream that takes results back nothing beyond
    these may be left."""
    if stream.exact:
        return judge(stream.name, expected, found, list)
    return judge(stream.name, expected, found, lambda beyond: never(stream, changes, beyond, made or {}))


def never(
    stream: Stream, changes: Sequence[Change], beyond: Sequence[Result], made: Mapping[str, Made]
) -> list[Result]:
    """Of rows of windows that are none in the end those that may not be there."""
    found: list[Result] = []
    for group, rows in groupby(
        sorted(beyond, key=lambda one: (one.group, one.ts)), key=lambda one: one.group
    ):
        own = [one for one in changes if group_of(stream, one.child) == group]
        newest = max((one.first for one in own if one.row is not None), default=0)
        _, left = empty_by_right(stream, list(rows), newest - stream.watermark)
        if stream.fires_empty:
            found += left  # a window that has lost its rows says so
        elif stream.by == "tbname":
            found += never_was(stream, own, left, made.get(group))
        else:
            found += could_not_be(stream, own, left)
    return found


def group_of(stream: Stream, child: str) -> str:
    """The group that a child's rows belong to."""
    if stream.by == "site":
        return str(site_of(child))
    return child if stream.by else ""
