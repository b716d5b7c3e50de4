"""The depth of rows that triggers have written, by the rows' place in the log."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from api_gateway.firing import Spot

_Place = tuple[str, int, int]
MOST = 500_000
"""How many places are remembered: the last ones."""


class Depths:
    """A reader may come upon rows in the log before their writer has learnt where they are. So it first waits
    for writes that are under way (:meth:`settle`)."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._known: dict[_Place, int] = {}
        self._numbers = 0
        self._under_way: set[int] = set()

    @contextmanager
    def appending(self) -> Iterator[None]:
        with self._changed:
            self._numbers += 1
            number = self._numbers
            self._under_way.add(number)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(number)
                self._changed.notify_all()

    def note(self, spots: Sequence[Spot], depth: int) -> None:
        with self._changed:
            for spot in spots:
                self._known[spot[:3]] = depth
            while len(self._known) > MOST:
                self._known.pop(next(iter(self._known)))

    def settle(self, seconds: float) -> None:
        """Wait until the writes that are under way now are over, but no longer than this."""
        with self._changed:
            now = set(self._under_way)
            if now:
                self._changed.wait_for(lambda: not now & self._under_way, seconds)

    def of(self, topic: str, partition: int, offset: int) -> int:
        return self._known.get((topic, partition, offset), 0)
