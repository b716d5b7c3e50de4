"""Who asks, whatever the protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """``user``: a name whose password was checked (``login``); ``now``: when, nanoseconds since the epoch."""

    user: str
    now: int
