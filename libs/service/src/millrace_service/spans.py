"""What is traced: which messages are sampled, and spans as they are kept. Pure; ``tracing`` makes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec


class Span(msgspec.Struct, frozen=True):
    """One part of a row's way. ``parent``: the span behind which it lies; empty for the first one. ``begin``
    and ``end``: ns since the epoch."""

    trace: str
    span: str
    parent: str
    service: str
    name: str
    begin: int
    end: int
    attributes: dict[str, str | int] = {}

    @property
    def ms(self) -> float:
        """How long it took."""
        return (self.end - self.begin) / 1e6


_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Span).decode


def lines_of(spans: Iterable[Span]) -> bytes:
    """One line of JSON for each."""
    return _encoder.encode_lines(list(spans))


def spans_of(lines: bytes) -> list[Span]:
    """The inverse of :func:`lines_of`; a last line that is being written is left out."""
    return [_decode(line) for line in lines[: lines.rfind(b"\n") + 1].splitlines() if line]


def traces_of(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans of each trace, by their begin."""
    found: dict[str, list[Span]] = {}
    for one in sorted(spans, key=lambda one: (one.begin, one.end)):
        found.setdefault(one.trace, []).append(one)
    return found


class Sampler:
    """Says which of the things that come one after the other are sampled: a ``share`` (above 0, up to 1) of
    them. It draws for each that is, not for those between. ``draw``: gives numbers from 0 to before 1."""

    def __init__(self, share: float, draw: Callable[[], float]) -> None:
        self._share, self._draw = share, draw
        self._passed_over = self._next()

    def _next(self) -> int:
        """How many come before the next one that is sampled."""
        if self._share >= 1:
            return 0
        return int(math.log1p(-self._draw()) / math.log1p(-self._share))

    def places(self, count: int) -> list[int]:
        """Which of the next ``count`` are sampled."""
        found = []
        at = self._passed_over
        while at < count:
            found.append(at)
            at += 1 + self._next()
        self._passed_over = at - count
        return found

    def parents(self, count: int, given: Mapping[int, str]) -> dict[int, str]:
        """Of the next ``count`` messages those that are traced: the header of those whose producer has
        ``given`` one, and, with an empty one, those that are sampled here."""
        return dict.fromkeys(self.places(count), "") | dict(given)
