"""Triggers whose calculation takes too much, found by calculating fewer of them together."""

from __future__ import annotations

from millrace_core.errors import ErrorCode

PARTS = 8
"""A part that takes too much is divided into this many parts: in halves, each of which may take as long as
the whole, one trigger among thousands would be found after a quarter of an hour."""
ALIKE = 3
"""One trigger after the other takes too much: the rest is not tried, it is the query."""
TOO_MUCH = frozenset({ErrorCode.TOO_LARGE, ErrorCode.QUERY_TIMEOUT, ErrorCode.TOO_MANY})
"""Errors of which fewer triggers together may be free."""


class Parts:
    """What of ``count`` triggers is calculated together next; all of them first. Whoever asks for the
    :attr:`next` part says how it :meth:`went`, or that it :meth:`took_too_much`."""

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
        """The part was not calculated; those of its triggers that are given up, and are not tried again."""
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
