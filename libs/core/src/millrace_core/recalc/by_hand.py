"""The outcome of RECALCULATE STREAM: which groups have come as far as its range reaches, and what the user is
told about the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace_core.model.stream import StreamSpec
from millrace_core.timeline.text import format_rfc3339
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.types import type_of
from millrace_core.wire.recalc import Part, Request


@dataclass(slots=True)
class ByHand:
    """Counts of a stream's groups: those that are ``cut`` again, those among them that have covered only a
    part of the range (``partly``), and those that are ``ignored``. ``until``: how far the furthest group of
    the latter two kinds has come, in ticks. ``open_end``: the range had no end."""

    cut: int = 0
    partly: int = 0
    ignored: int = 0
    until: int | None = None
    open_end: bool = False

    def take(self, request: Request, parts: Iterable[Part]) -> Iterator[Part]:
        """Pass on the parts of one request that can be cut, and count the groups."""
        asked = request.asked
        self.open_end = self.open_end or (asked is not None and asked[1] >= RANGE)
        if request.left_out is not None:
            groups, until = request.left_out
            self.ignored += groups
            self._reach(until)
        for part in parts:
            if part.first > part.until:
                self.ignored += 1
                self._reach(part.until)
                continue
            self.cut += 1
            if asked is not None and part.until < asked[1] < RANGE:
                self.partly += 1
                self._reach(part.until)
            yield part

    def _reach(self, until: int) -> None:
        self.until = until if self.until is None else max(until, self.until)

    def outcome(self, spec: StreamSpec) -> tuple[str, str]:
        """State and message of the recalculation, once it is done."""
        groups = self.cut + self.ignored
        if not groups:
            return "Ignored", "ignored: the stream has no rows in this range yet"
        if self.ignored:
            why = self._why(spec)
            if not self.cut:
                return "Ignored", f"ignored: {why}"
            return "Finished", f"ignored for {self.ignored} of {groups} groups: {why}"
        if self.partly:
            some = "" if self.partly == groups else f" for {self.partly} of {groups} groups"
            return "Finished", f"done {self._progress(spec)}{some}: the stream has not progressed further"
        return "Finished", ""

    def _why(self, spec: StreamSpec) -> str:
        type_ = type_of(spec.trigger)
        if not type_.numbered:
            return f"the range begins after what has been calculated ({self._progress(spec)})"
        if self.open_end:
            return f"{type_.keyword} can be recalculated only between two times (FROM … TO …)"
        return (
            f"{type_.keyword} can be recalculated only as far as it has been calculated "
            f"({self._progress(spec)}), but the range ends after that"
        )

    def _progress(self, spec: StreamSpec) -> str:
        assert self.until is not None, "a group has said so"
        precision = spec.source.table.precision if spec.source is not None else "ms"
        return f"up to {format_rfc3339(self.until, precision, spec.timezone)}"
