"""What happens to windows: the terms in which a windower and its caller communicate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from millrace_core.trigger.groups.columns import Array, Ints, objects

CLOSE, OPEN, ON_TIME, INVALID, REDO, RETRACT, CORRECT = range(7)
"""Kinds of occurrences; at one instant a window closes before the next opens. ON_TIME: an instant of SLIDING
or PERIOD came. INVALID: a window that was told of no longer exists (cause RECALC: it had closed before).
REDO: the closed windows that touch ``[start, end]`` must be cut again from the stored rows. RETRACT: results
of windows that begin in ``[start, end]`` are no longer valid, except for those that are told after it.
CORRECT: as REDO, but only if the row at ``next`` has rewritten another."""

LIVE, RECALC, DELAY, HISTORY = range(4)
"""Causes of occurrences: rows in order (or late rows in a window that is still open), disorder, MAX_DELAY,
rows older than the stream (or written while it was stopped)."""


class Row(NamedTuple):
    """An evaluated row. ``unsure``: it may be another version of a row that was evaluated before; ``cells``:
    what the trigger reads from it."""

    ts: int
    unsure: bool
    cells: dict[str, Any]


class SoFar(NamedTuple):
    """A window that is open, with the rows so far; ``end``: its ``_twend`` if it closed now."""

    start: int
    end: int
    rownum: int


class Occurrence(NamedTuple):
    """Something that happened to a window, or an instant that came.

    ``start``, ``end``, ``next``: as in ``wire.events.TriggerEvent``. ``rownum`` -1: the table must be asked.
    ``detail``: fields of the notification that only the windower knows (prevState, triggerCondition, …).
    """

    kind: int
    start: int
    end: int
    rownum: int
    cause: int = LIVE
    next: int = 0
    detail: dict[str, object] | None = None


@dataclass(slots=True)
class Occurrences:
    """Occurrences of many groups, in any order; ``step``: the arrival that caused each.

    ``skipped``: the number of empty windows that were left out because one move of T closed too many.
    ``over``: the number of late rows that count for nothing, because all their windows had closed.
    """

    group: Ints
    step: Ints
    kind: Ints
    start: Ints
    end: Ints
    rownum: Ints
    cause: Ints
    next: Ints
    detail: Array
    """object[]: a dict or None."""
    skipped: int = 0
    over: int = 0

    @staticmethod
    def of(
        group: Ints, step: Ints, kind: int, start: Ints, end: Ints, rownum: int | Ints, cause: int = LIVE
    ) -> Occurrences:
        """Occurrences of one kind and cause, without details."""
        count = len(group)
        detail = np.full(count, None, dtype=object)
        zeros = np.zeros(count, dtype=np.int64)
        return Occurrences(
            group, step, zeros + kind, start, end, zeros + rownum, zeros + cause, zeros, detail
        )

    def __len__(self) -> int:
        return len(self.group)

    def take(self, index: npt.NDArray[Any]) -> Occurrences:
        """The occurrences at these places (or under this mask)."""
        arrays = {name: getattr(self, name)[index] for name in _ARRAYS}
        return Occurrences(**arrays, skipped=self.skipped, over=self.over)

    @staticmethod
    def join(parts: Iterable[Occurrences]) -> Occurrences:
        """All occurrences of several parts."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        arrays: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in parts]) for n in _ARRAYS}
        totals = {name: sum(getattr(part, name) for part in parts) for name in _TOTALS}
        return Occurrences(**arrays, **totals)


_TOTALS = ("skipped", "over")
_ARRAYS = tuple(field.name for field in fields(Occurrences) if field.name not in _TOTALS)


_NONE, _NO_DETAIL = np.empty(0, dtype=np.int64), np.empty(0, dtype=object)


def nothing() -> Occurrences:
    """No occurrences."""
    return Occurrences(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NO_DETAIL)


def as_arrays(found: list[tuple[int, int, Occurrence]], skipped: int, over: int = 0) -> Occurrences:
    """Occurrences from a list of (group, step, occurrence)."""

    def array(values: Iterable[int]) -> Ints:
        return np.array(list(values), dtype=np.int64)

    return Occurrences(
        array(group for group, _, _ in found),
        array(step for _, step, _ in found),
        array(o.kind for _, _, o in found),
        array(o.start for _, _, o in found),
        array(o.end for _, _, o in found),
        array(o.rownum for _, _, o in found),
        array(o.cause for _, _, o in found),
        array(o.next for _, _, o in found),
        objects([o.detail for _, _, o in found]),
        skipped,
        over,
    )
