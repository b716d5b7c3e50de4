"""Holds the rows of an output table against the oracle's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.chaos.oracle import Result, Stored

Key = tuple[str, int]


@dataclass
class Verdict:
    """``right``: how many rows are as expected; the others in words, with the group and time that they are
    about. ``allowed``: rows of windows that are no more, which stay by rule."""

    expected: int = 0
    right: int = 0
    allowed: int = 0
    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.wrong and not self.missing

    def add(self, other: Verdict) -> None:
        self.expected += other.expected
        self.right += other.right
        self.allowed += other.allowed
        self.wrong += other.wrong
        self.missing += other.missing


def judge(
    what: str,
    expected: Sequence[Result],
    found: Iterable[Result],
    extras: Callable[[list[Result]], list[Result]],
) -> Verdict:
    """``extras``: of rows whose windows are none in the end those that no window ever gave."""
    truth = {(one.group, one.ts): one for one in expected}
    verdict = Verdict(expected=len(truth))
    seen: set[Key] = set()
    beyond: list[Result] = []
    for row in found:
        key = row.group, row.ts
        if key in seen:
            verdict.wrong.append(f"{what}: {_told(row)} came twice")
        elif key not in truth:
            beyond.append(row)
        elif row == truth[key]:
            verdict.right += 1
        else:
            verdict.wrong.append(f"{what}: {_told(row)} instead of {_told(truth[key])}")
        seen.add(key)
    never = extras(beyond) if beyond else []
    verdict.allowed = len(beyond) - len(never)
    verdict.wrong += [f"{what}: {_told(row)}, which no window ever gave" for row in never]
    verdict.missing += [f"{what}: {_told(truth[key])} is missing" for key in sorted(truth.keys() - seen)]
    return verdict


def judge_rows(
    what: str, expected: Stored, found: Iterable[tuple[str, int, int | None, int | None, int | None]]
) -> Verdict:
    """The rows of a trigger table itself: what the log says must be stored, and nothing else."""
    verdict = Verdict(expected=len(expected))
    seen: set[Key] = set()
    for child, ts, *cells in found:
        key = child, ts
        if key in seen:
            verdict.wrong.append(f"{what}: {child} {ts} came twice")
        elif key not in expected:
            verdict.wrong.append(f"{what}: {child} {ts} {tuple(cells)} is not in the log, or was deleted")
        elif tuple(cells) == expected[key]:
            verdict.right += 1
        else:
            verdict.wrong.append(f"{what}: {child} {ts} {tuple(cells)} instead of {expected[key]}")
        seen.add(key)
    verdict.missing += [f"{what}: {child} {ts} is missing" for child, ts in sorted(expected.keys() - seen)]
    return verdict


def _told(row: Result) -> str:
    return f"{row.group or 'all'} {row.ts} to {row.upto} ({row.n} rows, sum {row.total})"
