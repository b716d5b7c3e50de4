"""The readings of a sensor with known faults: the temperatures of San Francisco, with some hours moved by
14 degrees. What a detector finds can be compared with these labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millrace.demo import data
from millrace.demo.data import Reading

HOUR_MS = 3_600_000
FORTNIGHT = 14 * 24
"""Readings that are analysed together."""
FORTNIGHTS = 13
MOVED = 14.0


class Span(NamedTuple):
    """Consecutive readings: the times of the first and the last one."""

    first: int
    last: int


class Score(NamedTuple):
    """``precision``: the share of the hours found that are faults; ``recall``: the share of faults found."""

    found: int
    precision: float
    recall: float


def faulty(readings: Sequence[Reading]) -> tuple[list[Reading], list[Span]]:
    """The readings of half a year, with a fault of one to three hours in each fortnight, up and down in turn,
    and the labels of the faults."""
    changed, labels = list(readings[: FORTNIGHT * FORTNIGHTS + 1]), []
    for number in range(FORTNIGHTS):
        begin = number * FORTNIGHT + 40 + (number * 53) % 250
        span = range(begin, begin + 1 + number % 3)
        for place in span:
            ts, temp = changed[place]
            changed[place] = Reading(ts, round(temp + (MOVED if number % 2 else -MOVED), 1))
        labels.append(Span(changed[span[0]].ts, changed[span[-1]].ts))
    return changed, labels


def hours(spans: Iterable[Span]) -> set[int]:
    """The times of all readings in the spans."""
    return {ts for first, last in spans for ts in range(first, last + 1, HOUR_MS)}


def score(found: Iterable[Span], labels: Iterable[Span]) -> Score:
    """How well the windows found are those of the labels, hour by hour."""
    hit, meant = hours(found), hours(labels)
    both = len(hit & meant)
    return Score(len(hit), both / len(hit) if hit else 1.0, both / len(meant) if meant else 1.0)


def readings() -> tuple[list[Reading], list[Span]]:
    return faulty(data.read(data.path("san_francisco")))
