"""Finds the triggers whose calculation takes too much, by calculating fewer of them together."""

from __future__ import annotations

from millrace_core.errors import ErrorCode

PARTS = 8
"""A part that takes too much is divided into this many parts. Halving would be too slow: each half may take
as long as the whole, and one trigger among thousands would be found only after a quarter of an hour."""
ALIKE = 3
"""If this many triggers take too much one after the other, the rest is not tried: the query itself is at
fault."""
TOO_MUCH = frozenset({ErrorCode.TOO_LARGE, ErrorCode.QUERY_TIMEOUT, ErrorCode.TOO_MANY})
"""Errors that may not occur with fewer triggers together."""


class Parts:
    """Says which of ``count`` triggers are calculated together next: at first all of them. The caller takes
    the :attr:`next` part, and then reports that it :meth:`went` well or :meth:`took_too_much`."""

    def __init__(self, count: int) -> None:
        self._left = [range(count)]
        self._alike = 0

    @property
    def next(self) -> range | None:
        """None: nothing is left."""
        return self._left[-1] if self._left else None

    def went(self) -> None:
        """The part has been calculated."""
        self._left.pop()
        self._alike = 0

    def took_too_much(self) -> list[int]:
        """The part was not calculated. Returns those of its triggers that are given up and not tried
        again."""
        part = self._left.pop()
        if len(part) > 1:
            size = -(-len(part) // PARTS)
            self._left += [part[at : at + size] for at in range(0, len(part), size)][::-1]
            return []
        self._alike += 1
        given_up = list(part)
        if self._alike == ALIKE:
            given_up += [trigger for rest in reversed(self._left) for trigger in rest]
            self._left = []
        return given_up
