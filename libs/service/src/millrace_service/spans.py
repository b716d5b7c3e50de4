"""What is traced: which messages are sampled, and how spans are kept. Pure; ``tracing`` makes the spans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec


class Span(msgspec.Struct, frozen=True):
    """One part of a row's way. ``parent``: the span that this one follows; empty for the first one. ``begin``
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
    """The inverse of :func:`lines_of`; a last line that is still being written is left out."""
    return [_decode(line) for line in lines[: lines.rfind(b"\n") + 1].splitlines() if line]


def traces_of(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans of each trace, ordered by their begin."""
    found: dict[str, list[Span]] = {}
    for one in sorted(spans, key=lambda one: (one.begin, one.end)):
        found.setdefault(one.trace, []).append(one)
    return found


class Sampler:
    """Chooses which of a sequence of things are sampled: a ``share`` (above 0, up to 1) of them. It draws a
    number only for each sampled one, not for those between. ``draw``: returns numbers from 0 to below 1."""

    def __init__(self, share: float, draw: Callable[[], float]) -> None:
        self._share, self._draw = share, draw
        self._passed_over = self._next()

    def _next(self) -> int:
        """How many things come before the next sampled one."""
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
        """Place -> parent, for those of the next ``count`` messages that are traced: the header of a message
        whose producer has ``given`` one, and an empty text for a message that is sampled here."""
        return dict.fromkeys(self.places(count), "") | dict(given)
