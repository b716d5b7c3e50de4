"""Topics from which a client hears nothing, although records lie there.

A client remembers the leaders of a topic that is gone. If the topic is made again, by a broker that was
killed some time before, the client takes the new leaders for older ones than those it knows, for ever.
Only a new client reads on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from millrace_core.errors import MillraceError
from millrace_wal.record import Positions

SILENT = 5.0
"""Seconds within which a client that has nothing left to return must have returned what lay there before."""


class Silence:
    """``ends``: :meth:`millrace_wal.record.Log.ends_of`; ``now``: the time in seconds."""

    def __init__(
        self, ends: Callable[[Collection[str]], Positions], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._ends, self._now = ends, now
        self._looked = now()
        self._before: Positions = {}
        """Where reading stood at the last look, for topics whose end lay elsewhere."""

    def topics(self, positions: Mapping[str, Mapping[int, int]]) -> list[str]:
        """Topics in which records lay at two looks, although none came between the looks. Ask this only when
        all that the client has fetched has been returned."""
        if self._now() - self._looked < SILENT:
            return []
        self._looked = self._now()
        before, self._before = self._before, {}
        try:
            ends = self._ends(list(positions))
        except MillraceError:
            return []  # the broker is away: no wonder that nothing comes
        for topic, at in positions.items():
            behind = {p: place for p, place in at.items() if ends.get(topic, {}).get(p, place) != place}
            if behind:
                self._before[topic] = behind
        return [
            topic for topic, places in self._before.items()
            if any(before.get(topic, {}).get(p) == place for p, place in places.items())
        ]  # fmt: skip
