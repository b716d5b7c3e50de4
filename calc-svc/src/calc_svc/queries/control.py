"""What calc-svc and a process of its own tell each other about the process, over a pipe of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

OUT_OF_MEMORY = 77
"""The exit code of a process that had not enough memory."""
NICE = 5
"""The priority of what is done for users' statements: what is calculated for streams goes first where both
want the same core."""


class As(StrEnum):
    """How a process comes: as the first, as the next that is waited for, or as one that stands by."""

    FIRST = "first"
    NEXT = "next"
    SPARE = "spare"


class Ready(NamedTuple):
    """From the process: it takes statements."""


class Warm(NamedTuple):
    """From one that stands by: it answers as soon as it ever will."""


class Cancel(NamedTuple):
    """To the process: the statement of this number on this lane is to end."""

    lane: int
    number: int
