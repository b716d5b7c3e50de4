"""Control records that say nothing any more: their keys are deleted, and compaction takes them away (decision
0039).

What is left must mean the same to whoever reads the topic from its beginning: trigger-svc if it has to begin
anew, and all that replay it (the clock, the choice of topics, ``recovery``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millrace_core.wire import control

Key = bytes


@dataclass(slots=True)
class _Said:
    """About one stream: the keys of its definition with what belongs to it, of what was said before the next
    one (where its rows come from), and of its last START or STOP."""

    defined: list[Key] = field(default_factory=list)
    ahead: list[Key] = field(default_factory=list)
    turned: Key | None = None


class Spent:
    """Takes in the records in order. What :meth:`take` gives says nothing once the record that it was given
    is in force."""

    def __init__(self) -> None:
        self._streams: dict[int, _Said] = {}
        self._changes: dict[int, Key] = {}
        """By table, the last ALTER."""
        self._last: int | None = None
        """The stream whose definition came last: children that follow are told for it."""

    def take(self, key: Key, record: control.AnyControl) -> Iterator[Key]:
        match record:
            case control.DiagnoseStream() | control.RecalculateStream():
                yield key
            case control.DefineStream(spec=spec):
                known = self._streams.setdefault(spec.uid, _Said())
                yield from self._turn(known, None)
                yield from known.defined
                known.defined, known.ahead = [*known.ahead, key], []
                self._last = spec.uid
            case control.KnowOrigins(stream=uid):
                self._streams.setdefault(uid, _Said()).ahead.append(key)
            case control.KnowChildren() if self._last is not None:
                self._streams.setdefault(self._last, _Said()).defined.append(key)
            case control.StartStream(uid=uid) | control.StopStream(uid=uid):
                yield from self._turn(self._streams.setdefault(uid, _Said()), key)
            case control.DropStream(uid=uid):
                known = self._streams.pop(uid, _Said())
                yield from [*known.ahead, *known.defined]
                yield from self._turn(known, None)
                yield key
                self._last = None if self._last == uid else self._last
            case control.ChangeTable(table=table):
                if (before := self._changes.get(table.uid)) is not None:
                    yield before
                self._changes[table.uid] = key
            case _:
                pass  # that a table was dropped, and children of no stream that is known: they stay

    @staticmethod
    def _turn(known: _Said, key: Key | None) -> Iterator[Key]:
        if known.turned is not None:
            yield known.turned
        known.turned = key
