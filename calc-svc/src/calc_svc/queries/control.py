"""What calc-svc and a process of its own tell each other: over one pipe about the process, and over one pipe
per lane about the query on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

OUT_OF_MEMORY = 77
"""The exit code of a process that did not have enough memory."""


class As(StrEnum):
    """How a process starts: as the first, as the next one that queries wait for, or as one that stands by."""

    FIRST = "first"
    NEXT = "next"
    SPARE = "spare"


class Ready(NamedTuple):
    """From the process: it takes statements now."""


class Warm(NamedTuple):
    """From a process that stands by: it answers as quickly now as it ever will."""


class Cancel(NamedTuple):
    """To the process: the statement of this number on this lane is to end."""

    lane: int
    number: int


class Said(NamedTuple):
    """On a lane: something about the query of this ``number``. ``last``: the process has said all, and the
    lane is free."""

    number: int
    message: Any
    last: bool = False
