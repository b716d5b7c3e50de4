"""Control records that no longer mean anything: their keys are deleted, and compaction removes them (decision
0039).

What is left must mean the same to whoever reads the topic from its beginning: to trigger-svc if it has to
begin anew, and to all that replay it, which are the clock, the choice of topics, ``recovery``, and VERIFY
STREAM, which asks what a stream was told to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from millrace_core.wire import control

Key = bytes


@dataclass(slots=True)
class _Said:
    """What was said about one stream. ``defined``: the keys of its definition and of what belongs to it;
    ``turned``: the key of its last START or STOP; ``ranges``: what it was told to recalculate, as (first,
    last, key)."""

    defined: list[Key] = field(default_factory=list)
    turned: Key | None = None
    ranges: list[tuple[int, float, Key]] = field(default_factory=list)

    def turn(self, key: Key) -> Iterator[Key]:
        """The stream is started or stopped; yields the earlier record of that, which no longer counts."""
        if self.turned is not None:
            yield self.turned
        self.turned = key

    def recalculate(self, first: int, last: float, key: Key) -> Iterator[Key]:
        """The stream is to recalculate a range; yields the records of ranges that lie within others: they add
        nothing to what the stream has recalculated."""
        if any(begin <= first and last <= end for begin, end, _ in self.ranges):
            yield key
            return
        yield from (one for begin, end, one in self.ranges if first <= begin and end <= last)
        self.ranges = [one for one in self.ranges if not (first <= one[0] and one[1] <= last)]
        self.ranges.append((first, last, key))

    @property
    def keys(self) -> list[Key]:
        turned = [] if self.turned is None else [self.turned]
        return [*self.defined, *turned, *(key for _, _, key in self.ranges)]


class Spent:
    """Takes in the records in order. The keys that :meth:`take` yields mean nothing any more once the record
    that it was given is in force."""

    def __init__(self) -> None:
        self._streams: dict[int, _Said] = {}
        self._changes: dict[int, Key] = {}
        """By table, the key of the last ALTER."""
        self._last: int | None = None
        """The stream whose definition came last: records of children that follow belong to it."""

    def take(self, key: Key, record: control.AnyControl) -> Iterator[Key]:
        match record:
            case control.DiagnoseStream():
                yield key
            case control.RecalculateStream(uid=uid, first=first, last=last):
                yield from self._of(uid).recalculate(first, inf if last is None else last, key)
            case control.DefineStream(spec=spec):
                self._of(spec.uid).defined.append(key)
                self._last = spec.uid
            case control.KnowOrigins(stream=uid):
                self._of(uid).defined.append(key)
            case control.KnowChildren() if self._last is not None:
                self._of(self._last).defined.append(key)
            case control.StartStream(uid=uid) | control.StopStream(uid=uid):
                yield from self._of(uid).turn(key)
            case control.DropStream(uid=uid):
                yield from [*self._streams.pop(uid, _Said()).keys, key]
                self._last = None if self._last == uid else self._last
            case control.ChangeTable(table=table):
                if (before := self._changes.get(table.uid)) is not None:
                    yield before
                self._changes[table.uid] = key
            case _:
                pass  # records of dropped tables stay, and so do those of children of an unknown stream

    def _of(self, uid: int) -> _Said:
        return self._streams.setdefault(uid, _Said())
