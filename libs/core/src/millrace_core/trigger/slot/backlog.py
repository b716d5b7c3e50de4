"""Messages that streams have put off, because their rows mean nothing to the streams yet.

How rows are divided into batches is invisible: a stream tells the same whether it evaluates rows as they come
or many at once. So if many streams read a table, each evaluates rows only when it has something to tell: of a
thousand windows that end at different times, few end in one batch. What a stream has put off is evaluated
before anything other than rows reaches it, and when a tick comes and no rows have come since the tick before.
So nobody can tell the difference, except that its counters lag behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import Ints, starts_of
from millrace_core.trigger.groups.watermark import NEVER
from millrace_core.trigger.rows.intake import Messages, TableRows, distinct, of_each, present
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.types.occurrences import OPEN
from millrace_core.trigger.types.windower import NEVER_CALM, Span
from millrace_core.wire.control import Offsets

FEW = 8
"""If a table has fewer streams, they evaluate all that comes: this costs less than looking for what can
wait."""
MOST = 2_000
"""Messages of a table: if more wait or come at once, all streams evaluate them. Waiting messages are part of
the slot's state."""
LONG = 20_000
"""ms after which messages are evaluated even if nothing else calls for it: counters lag no further behind."""
AT_ONCE = 8
"""How many of the streams that have waited that long evaluate in one batch. Without a limit, all of them
would always do so in the same batch."""
_INTS = ("partition", "offset", "timestamp")


class Calm(NamedTuple):
    """What decides whether a stream may put rows off: whether it is ``live``, from which ``child`` it takes
    rows (None: from any), and in which ``span`` they mean nothing to it."""

    live: bool
    child: bytes | None
    span: Span


def calm_of(state: StreamState) -> Span:
    """The span in which rows, of whatever tables and in whatever order, cause the stream to tell nothing and
    to request nothing.

    It is valid until the stream has evaluated something. Such rows still count in the counters.
    """
    definition, life = state.definition, state.life
    if life.holding or state.waits or not definition.home or definition.table.virtual:
        return NEVER_CALM
    shows = definition.timer is not None or definition.showing is not None
    if definition.signals or shows or OPEN in definition.emission.kinds:
        return NEVER_CALM
    state.clock.grow(len(state.groups))
    state.memory.grow(len(state.groups))
    newest = state.clock.singles["newest"]
    seen = newest != NEVER
    if not seen.any() or not state.clock.singles["started"][seen].all():
        return NEVER_CALM
    watermark = definition.clock.watermark
    until = newest[seen] - watermark
    span = definition.windower.calm(state.memory, seen, until)
    # T, which closes windows, lies that far behind the newest row
    return span if span == NEVER_CALM else Span(span.first, span.last + watermark)


class _OfChild:
    """The waiting messages of one child, in columns; ``part``: the number of the part that each is from."""

    def __init__(self) -> None:
        self.part: list[int] = []
        self._ints: dict[str, list[int]] = {name: [] for name in _INTS}
        self._values: list[bytes | None] = []
        self._columns: list[list[Any]] = [self.part, self._values, *self._ints.values()]

    def add(self, part: int, messages: Messages, mine: Ints) -> None:
        """Take those of the messages of a part that are at these places."""
        self.part.extend([part] * len(mine))
        for name, cells in self._ints.items():
            cells.extend(getattr(messages, name)[mine].tolist())
        self._values.extend(map(messages.value.__getitem__, mine.tolist()))

    def since(self, part: int, topic: str, child: bytes | None) -> list[Messages]:
        """The messages from that part on, as one batch in the order of evaluation."""
        begin = bisect_left(self.part, part)
        if begin == len(self.part):
            return []
        ints = {name: np.array(cells[begin:], dtype=np.int64) for name, cells in self._ints.items()}
        same = np.zeros(len(self.part) - begin, dtype=np.int64)
        found = Messages([topic], same, [child], same, **ints, value=self._values[begin:])
        return list(found.by_topic().values())

    def trim(self, part: int) -> None:
        """Forget the messages before that part."""
        gone = bisect_left(self.part, part)
        for cells in self._columns:
            del cells[:gone]


@dataclass(slots=True)
class _Part:
    """Messages of one batch; ``seen``: what the slot had seen of the topic before them."""

    messages: Messages
    seen: Offsets
    encoded: msgspec.Raw | None = None


class Backlog:
    """The messages of one topic that some stream has not evaluated. ``behind``: for each such stream, the
    number of the first part that it has not evaluated; those that have waited longest come first. ``ticked``:
    whether a tick has come since the last of these messages, or may have (a slot that is restored does not
    know)."""

    def __init__(self, topic: str) -> None:
        self.topic, self.ticked = topic, False
        self.behind: dict[int, int] = {}
        self._first = 0
        self._parts: list[_Part] = []
        self._of_child: dict[bytes | None, _OfChild] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put_off(self, uids: Iterable[int], messages: Messages, seen: Mapping[int, int]) -> None:
        """Note that these streams have not evaluated these messages; ``seen``: what had been seen of the
        topic before them."""
        self.ticked = False
        number = self._add(_Part(messages, dict(seen)))
        for uid in uids:
            self.behind.setdefault(uid, number)

    def _add(self, part: _Part) -> int:
        """Returns the part's number."""
        number = self._first + len(self._parts)
        self._parts.append(part)
        self._count += len(part.messages)
        messages = part.messages
        for place in present(messages.key).tolist():
            mine = np.flatnonzero(messages.key == place)
            self._of_child.setdefault(messages.keys[place], _OfChild()).add(number, messages, mine)
        return number

    def overdue(self, now: int) -> list[int]:
        """Streams that have waited for longer than LONG at ``now`` (ms): only the ones that have waited
        longest."""
        found: list[int] = []
        for uid, number in islice(self.behind.items(), AT_ONCE):
            if now - self._since(number) <= LONG:
                break
            found.append(uid)
        return found

    def _since(self, number: int) -> int:
        return int(self._parts[number - self._first].messages.timestamp[0])

    def seen_by(self, uid: int) -> Offsets | None:
        """What the slot had seen of the topic before the first message that the stream has not evaluated;
        None if it has evaluated all."""
        number = self.behind.get(uid)
        return None if number is None else self._parts[number - self._first].seen

    def take(self, children: Mapping[int, bytes | None]) -> list[tuple[set[int], list[Messages]]]:
        """What these streams have put off and must evaluate now, oldest first; for each, the child that it
        takes rows from (None: from any). Streams that have the same to evaluate share an entry. They are no
        longer behind."""
        found: dict[tuple[int, bytes | None], set[int]] = {}
        for uid, child in children.items():
            number = self.behind.pop(uid, None)
            if number is not None:
                found.setdefault((number, child), set()).add(uid)
        taken = [
            (found[number, child], self._of(number, child))
            for number, child in sorted(found, key=lambda one: (one[0], one[1] or b""))
        ]
        if found:
            self._trim()
        return taken

    def _of(self, number: int, child: bytes | None) -> list[Messages]:
        """The messages from this part on; of a child, only its own."""
        if child is None:
            return [part.messages for part in self._parts[number - self._first :]]
        mine = self._of_child.get(child)
        return [] if mine is None else mine.since(number, self.topic, child)

    def _trim(self) -> None:
        """Forget what no stream has left to evaluate."""
        first = next(iter(self.behind.values()), self._first + len(self._parts))
        gone, self._parts = self._parts[: first - self._first], self._parts[first - self._first :]
        self._first = first
        self._count -= sum(len(part.messages) for part in gone)
        for child in {key for part in gone for key in part.messages.keys} & self._of_child.keys():
            mine = self._of_child[child]
            mine.trim(first)
            if not mine.part:
                del self._of_child[child]

    def dump(self) -> list[Any]:
        for part in self._parts:
            if part.encoded is None:
                part.encoded = msgspec.Raw(msgspec.msgpack.encode(_dump(part)))
        return [self._first, self.behind, [part.encoded for part in self._parts]]

    @staticmethod
    def load(topic: str, data: list[Any]) -> Backlog:
        backlog = Backlog(topic)
        backlog._first, behind, parts = data
        backlog.behind = dict(sorted(behind.items(), key=lambda one: one[1]))
        backlog.ticked = True
        for part in parts:
            backlog._add(_load(topic, part))
        return backlog


def joined(topic: str, parts: list[Messages]) -> Messages:
    """Messages of one topic in the order of evaluation."""
    if len(parts) == 1:
        return parts[0]
    ints = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _INTS}
    keys = [key for part in parts for key in of_each(part.keys, part.key)]
    (found,) = (
        _messages(topic, ints, keys, [value for part in parts for value in part.value]).by_topic().values()
    )
    return found


def spans_of(rows: TableRows, messages: Messages) -> dict[bytes | None, Span]:
    """From the first to the last time of the rows of each key's messages."""
    keys = of_each(messages.keys, messages.key)
    found: dict[bytes | None, Span] = {}
    if not len(rows.ts):
        return found
    # the rows of a message are in the order of their times
    begins = starts_of(rows.message)
    ends = np.append(begins[1:], len(rows.ts)) - 1
    columns = (rows.message[begins], rows.ts[begins], rows.ts[ends])
    for message, first, last in zip(*(column.tolist() for column in columns), strict=True):
        known = found.get(keys[message])
        found[keys[message]] = (
            Span(first, last) if known is None else Span(min(first, known.first), max(last, known.last))
        )
    return found


def _dump(part: _Part) -> list[Any]:
    messages = part.messages
    ints = [getattr(messages, name).astype("<i8").tobytes() for name in _INTS]
    return [*ints, of_each(messages.keys, messages.key), messages.value, part.seen]


def _load(topic: str, data: list[Any]) -> _Part:
    *ints, keys, values, seen = data
    arrays = [np.frombuffer(raw, dtype="<i8").astype(np.int64) for raw in ints]
    return _Part(_messages(topic, dict(zip(_INTS, arrays, strict=True)), keys, values), seen)


def _messages(topic: str, ints: dict[str, Ints], keys: list[Any], values: list[Any]) -> Messages:
    different, key = distinct(keys)
    return Messages([topic], np.zeros(len(keys), dtype=np.int64), different, key, **ints, value=values)
