"""How far around a range of time rows must be read, and which windows a change in it can touch.

A trigger type whose windows are cut again from the stored rows has a :class:`Reach` of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from millrace_core.trigger.groups.columns import Array, Ints
from millrace_core.trigger.groups.watermark import Bools
from millrace_core.trigger.types.occurrences import Occurrences


@dataclass(slots=True)
class Rows:
    """Rows by (group, ts); ``columns``: what the trigger reads from them, as ``Windower.columns``."""

    group: Ints
    ts: Ints
    columns: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ts)

    def only(self, wanted: Bools) -> Rows:
        return Rows(
            self.group[wanted], self.ts[wanted], {name: a[wanted] for name, a in self.columns.items()}
        )

    def between(self, begin: int, end: int) -> Rows:
        """The rows at the positions ``[begin, end)``, not copied."""
        some = slice(begin, end)
        return Rows(self.group[some], self.ts[some], {name: a[some] for name, a in self.columns.items()})


@dataclass(slots=True)
class Stretch:
    """Rows of one group with ``low <= ts <= high``. ``first``: no row of the group lies before it."""

    rows: Rows
    low: int
    high: int
    first: bool


class Reach(ABC):
    """What a type of windows needs to know of the rows around the range ``[first, last]``.

    ``fixed``: where windows may begin does not depend on the rows, so a window never becomes invalid.
    ``anew``: a recalculation divides the rows of its range anew, whatever lies before them, whereas live
    windows depend on all rows of the group. ``onward``: a change touches all windows after it.
    """

    fixed = False
    anew = False
    onward = False

    @abstractmethod
    def span(self, first: int, last: int) -> tuple[int, int]:
        """The range to read at first."""

    @abstractmethod
    def begins(self, stretch: Stretch, first: int) -> bool:
        """Whether these rows suffice to cut correctly all windows that touch ``first`` or what follows."""

    @abstractmethod
    def ends(self, stretch: Stretch, last: int) -> bool:
        """Whether all windows that touch the range, and those that a change in it can touch, end within these
        rows."""

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        """The range that is touched by all windows that a change of rows in ``[first, last]`` may have
        changed."""
        return first, last

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        """Which windows are cut again for ``[first, last]``."""
        touching: np.ndarray = (start <= last) & (end >= first)
        return touching

    def began(self, stretch: Stretch, first: int) -> int | None:
        """How far T had come before the first row that matters; None: to that row."""
        return None

    def around(self, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        """Where the windows lie that may no longer exist; ``found`` was cut again for ``[first, last]``."""
        return int(found.start.min(initial=first)), int(found.end.max(initial=last))

    def last_closed(self, until: int) -> int:
        """The start of the last window that may have closed when T is ``until``."""
        return until

    def keys(self, stretch: Stretch, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        """The range of starts (both included) of all windows, present or former, that a change in
        ``[first, last]`` has touched; ``found``: as in :meth:`around`."""
        return self.around(found, first, last)
