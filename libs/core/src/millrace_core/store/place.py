"""Where in the log a stored row was written last: partition and offset in one integer.

The ``%%trows`` of a PERIOD trigger are the rows written between two places, whatever their times (seed 000).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from millrace_core.store.search import Bools, Ints
from millrace_core.timeline.precision import HIGHEST

OFFSET_BITS = 48  # bits of the offset; the 15 bits above it hold the partition
NOWHERE = -1
"""The place of a row that was stored before places were kept: it is in no span."""

Spans = tuple[tuple[int, int], ...]
"""Stretches of the log as pairs of places: first and end (exclusive)."""


def place_of(partition: int, offset: int) -> int:
    """The place of a message: ordered by partition, then by offset."""
    return (partition << OFFSET_BITS) + offset


def places_of(partition: int, offsets: Sequence[int]) -> Ints:
    """The places of messages of one partition."""
    if isinstance(offsets, range):
        return np.arange(offsets.start, offsets.stop, dtype=np.int64) + place_of(partition, 0)
    return np.array(offsets, dtype=np.int64) + place_of(partition, 0)


def partition_and_offset(place: Ints) -> tuple[Ints, Ints]:
    """The inverse of :func:`place_of`; NOWHERE comes after everything in a partition -1."""
    offset = np.where(place == NOWHERE, HIGHEST, place & ((1 << OFFSET_BITS) - 1))
    return place >> OFFSET_BITS, offset


def spans_of(written: Mapping[int, tuple[int, int]] | None) -> Spans:
    """The spans of partition -> [from, to) offsets; empty ones are left out."""
    return spans_of_stretches((partition, *span) for partition, span in (written or {}).items())


def spans_of_stretches(stretches: Iterable[tuple[int, int, int]]) -> Spans:
    """The spans of these stretches (partition, from, to) of one topic; empty ones are left out."""
    found = [
        (place_of(partition, first), place_of(partition, end))
        for partition, first, end in sorted(stretches)
        if first < end
    ]
    return tuple(found)


def end_of(written: Mapping[int, tuple[int, int]] | None) -> int:
    """The place from which on nothing in its partition counts, given the [from, to) offsets of one partition.
    If there are none, everything counts."""
    for partition, (_, end) in (written or {}).items():
        return place_of(partition, end)
    return HIGHEST


def from_place(place: int) -> Spans:
    """The span of everything at or after a place, in its partition."""
    return ((place, ((place >> OFFSET_BITS) + 1) << OFFSET_BITS),)


def is_behind(place: Ints, until: Ints) -> Bools:
    """Which places lie at or after the corresponding one in ``until``, in the same partition."""
    found: Bools = (place >= until) & (place >> OFFSET_BITS == until >> OFFSET_BITS)
    return found


def nowhere(count: int) -> Ints:
    """The places of rows that come from no message."""
    return np.full(count, NOWHERE, dtype=np.int64)


def inside(place: Ints, spans: Spans) -> Bools:
    """Which of the places lie in one of the spans."""
    keep = np.zeros(len(place), dtype=bool)
    for first, end in spans:
        keep |= (place >= first) & (place < end)
    return keep
