"""What an event of a trigger gives to the query: placeholders, and which rows belong to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.wire.events import TriggerEvent

Value = Callable[[TriggerEvent], int]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """``of``: gives its value in an event. ``in_ns``: it is a time in nanoseconds, whatever the database's
    precision. ``close_only``: its value is not yet known when a window opens."""

    name: str
    type: DataType
    of: Value
    in_ns: bool = False
    close_only: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """``begin`` and ``end``: what the times of the rows in ``%%trows`` are compared with; both None if not
    the times of rows decide, but their places in the log. ``localtime``: ``_tlocaltime``, ns."""

    placeholders: tuple[Placeholder, ...]
    begin: tuple[Literal[">", ">="], str] | None
    end: tuple[Literal["<", "<="], str] | None
    localtime: Value = lambda event: event.localtime

    @property
    def half_open(self) -> bool:
        """Whether the end itself no longer belongs to the window, but to what comes next."""
        return self.end is not None and self.end[0] == "<"


_WINDOW = (
    Placeholder("_twstart", TIMESTAMP, lambda event: event.start),
    Placeholder("_twend", TIMESTAMP, lambda event: event.end, close_only=True),
    Placeholder("_twduration", BIGINT, lambda event: event.end - event.start, close_only=True),
    Placeholder("_twrownum", BIGINT, lambda event: event.rownum, close_only=True),
)
WINDOW = Moment(_WINDOW, (">=", "_twstart"), ("<=", "_twend"))
"""A window from its first row to its last."""
WINDOW_UNTIL = Moment(_WINDOW, (">=", "_twstart"), ("<", "_twend"))
"""A window whose end is the first time that is not in it."""
