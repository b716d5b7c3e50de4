"""Rows that rewrite another, where the row alone does not tell what to judge.

An update is disorder (seed 000). But a version that PRE_FILTER leaves out takes the row out of its window,
and one that names some columns only keeps the other cells as they are stored. Of both the slot knows nothing
but the time; the stored rows know the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from millrace_core.trigger.columns import Ints
from millrace_core.trigger.intake import Messages, TableRows
from millrace_core.trigger.stream import Stream
from millrace_core.trigger.watermark import NEVER, RANGE, Bools, running_newest


@dataclass(frozen=True, slots=True)
class Versions:
    """Such rows: place of the ``group``, ``ts``, whether a column is ``unnamed``, when ``written`` (ms)."""

    group: Ints
    ts: Ints
    unnamed: Bools
    written: Ints

    def by_group(self) -> Iterator[tuple[int, list[tuple[int, bool, int]]]]:
        """(place, [(ts, unnamed, written)]), by time."""
        order = np.lexsort((self.ts, self.group))
        columns = (self.group, self.ts, self.unnamed, self.written)
        rows = zip(*(column[order].tolist() for column in columns), strict=True)
        found: dict[int, list[tuple[int, bool, int]]] = {}
        for group, ts, unnamed, written in rows:
            found.setdefault(group, []).append((ts, unnamed, written))
        yield from found.items()


NONE = np.empty(0, dtype=np.int64)
NO_VERSIONS = Versions(NONE, NONE, NONE.astype(bool), NONE)


def passing(stream: Stream, rows: TableRows, group: Ints, messages: Messages) -> tuple[TableRows, Versions]:
    """The rows to judge, and those that rewrite others but cannot be judged; what PRE_FILTER leaves out is
    counted. ``group[m]``: the stream's group of message ``m``, -1 for messages that do not take part."""
    definition = stream.definition
    passed = np.ones(len(rows.ts), dtype=bool)
    if definition.filter is not None:
        passed = rows.signals[definition.filter]
    unnamed = rows.partial(definition.signals)
    doubtful = ~passed | unnamed
    if not doubtful.any():
        return rows, NO_VERSIONS
    owner = group[rows.message]
    doubtful &= owner >= 0
    if definition.home and not definition.clock.ignore_disorder:
        doubtful &= _rewrites(stream, rows.ts, owner, passed)
    else:
        doubtful[:] = False
    stream.count("filtered", int((~passed & (owner >= 0) & ~(doubtful & unnamed)).sum()))
    found = Versions(
        owner[doubtful], rows.ts[doubtful], unnamed[doubtful], messages.timestamp[rows.message[doubtful]]
    )
    return rows.only(passed & ~(doubtful & unnamed)), found


def _rewrites(stream: Stream, ts: Ints, owner: Ints, passed: Bools) -> Bools:
    """bool[rows]: those that are not newer than what their group had seen when they came. ``passed``: the
    rows that move its time."""
    stream.clock.grow(len(stream.groups))
    order = np.flatnonzero((owner >= 0) & (ts > -RANGE) & (ts < RANGE))
    order = order[np.argsort(owner[order], kind="stable")]
    found = np.zeros(len(ts), dtype=bool)
    if len(order):
        mine = owner[order]
        first = np.flatnonzero(np.append(True, mine[1:] != mine[:-1]))
        moving = np.where(passed[order], ts[order], NEVER)
        before, _ = running_newest(moving, first, stream.clock.singles["newest"][mine[first]])
        found[order] = ts[order] <= before
    return found
