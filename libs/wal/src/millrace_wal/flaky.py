"""The log in memory with injected faults, for models of code that reads, writes and commits.

Each call that a broker may fail takes the next of the faults that a test gives. The call then fails before it
has taken effect, after that, or half way (some of the messages are in the log), or the process is killed
there. What was read and not committed comes again, as for any member of a group that begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NoReturn, TypeVar

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import Topic
from millrace_wal.memory import MemoryGroupReader, MemoryLog, MemoryReader
from millrace_wal.record import Closing, Message, Positions, Record, Stretch, stretches_of

T = TypeVar("T")


class InjectedFault(Enum):
    """What becomes of one call. ``NONE`` comes first, because failing examples shrink to it."""

    NONE = "none"
    BEFORE = "fails before it has taken effect"
    AFTER = "fails after it has taken effect"
    HALF = "fails after half of it has taken effect"
    ENDED = "works, and a new client takes over: that of a group begins at the committed offsets"
    KILLED_BEFORE = "the process is killed before it has taken effect"
    KILLED_AFTER = "the process is killed after it has taken effect"


FAILURES = (
    InjectedFault.NONE,
    InjectedFault.BEFORE,
    InjectedFault.AFTER,
    InjectedFault.HALF,
    InjectedFault.ENDED,
)
KILLS = (InjectedFault.KILLED_BEFORE, InjectedFault.KILLED_AFTER)


class Killed(BaseException):
    """The process ends here: nothing of its memory is left, and nothing of it catches this."""


class FlakyLog(Closing):
    """See :class:`millrace_wal.record.Log`. ``log``: what is really there, for tests to look at.

    ``faults``: one for each call, in order; after the last one all calls succeed. ``on_commit``: called
    before a commit takes effect, with the group and the offsets, even if its caller never hears of it.
    """

    def __init__(
        self,
        log: MemoryLog,
        faults: Iterable[InjectedFault] = (),
        on_commit: Callable[[str, Mapping[tuple[str, int], int]], None] = lambda group, offsets: None,
    ) -> None:
        self.log = log
        self.on_commit = on_commit
        self.calls: list[tuple[str, InjectedFault]] = []
        """The calls so far, and what became of each."""
        self._faults = iter(faults)
        self._members: list[MemoryGroupReader] = []

    def give(self, faults: Iterable[InjectedFault]) -> None:
        """The faults of the next calls; after the last one all calls succeed."""
        self._faults = iter(faults)

    def call(
        self, doing: str, effect: Callable[[], T], half: Callable[[], object] | None = None,
        ended: Callable[[], object] = lambda: None,
    ) -> T:  # fmt: skip
        """One call that changes something. ``half``: the part of its effect that it has if it fails half way
        (None: it has no parts); ``ended``: what the end of its client does after the call."""
        fault = self._next(doing)
        if fault is InjectedFault.HALF and half is not None:
            half()
        else:
            found = effect()
        if fault is InjectedFault.KILLED_AFTER:
            self._kill(doing)
        if fault in (InjectedFault.AFTER, InjectedFault.HALF):
            raise MillraceError(ErrorCode.TIMEOUT, f"{doing}: the broker did not answer")
        if fault is InjectedFault.ENDED:
            ended()
        return found

    def ask(self, doing: str, effect: Callable[[], T], ended: Callable[[], object] = lambda: None) -> T:
        """One call that fails as a whole or not at all, like a poll, which then stands where it stood."""
        fault = self._next(doing)
        if fault in (InjectedFault.AFTER, InjectedFault.HALF):
            raise MillraceError(ErrorCode.TIMEOUT, f"{doing}: the broker did not answer")
        found = effect()
        if fault is InjectedFault.KILLED_AFTER:
            self._kill(doing)
        if fault is InjectedFault.ENDED:
            ended()
        return found

    def _next(self, doing: str) -> InjectedFault:
        fault = next(self._faults, InjectedFault.NONE)
        self.calls.append((doing, fault))
        if fault is InjectedFault.KILLED_BEFORE:
            self._kill(doing)
        if fault is InjectedFault.BEFORE:
            raise MillraceError(ErrorCode.UNAVAILABLE, f"{doing}: the broker cannot be reached")
        return fault

    def _kill(self, doing: str) -> NoReturn:
        """The members of groups are not heard from any more, so their sessions end."""
        members, self._members = self._members, []
        for member in members:
            self.log.forget(member)
        raise Killed(doing)

    # ------------------------------------------------------------------ the log

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        some = list(messages[: len(messages) // 2])
        return self.call("append", lambda: self.log.append(messages, timeout), lambda: self.log.append(some))

    def ensure_topics(self, topics: Sequence[Topic | tuple[str, int]]) -> None:
        self.call("ensure_topics", lambda: self.log.ensure_topics(topics))

    def delete_topics(self, names: Sequence[str]) -> None:
        self.call("delete_topics", lambda: self.log.delete_topics(names))

    def empty_topics(self, names: Sequence[str]) -> None:
        self.call("empty_topics", lambda: self.log.empty_topics(names))

    def trim(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        self.call("trim", lambda: self.log.trim(ends))

    def cut_for(self, kept: Mapping[str, int]) -> None:
        self.call("cut_for", lambda: self.log.cut_for(kept))

    def offsets_at(self, topic: str, at: int) -> dict[int, int]:
        return self.ask("offsets_at", lambda: self.log.offsets_at(topic, at))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return self.ask("committed", lambda: self.log.committed(group, topic))

    def ends_of(self, topics: Collection[str]) -> Positions:
        return self.ask("ends_of", lambda: self.log.ends_of(topics))

    def topics(self, prefix: str = "") -> list[str]:
        return self.ask("topics", lambda: self.log.topics(prefix))

    def begin_offsets(self, topic: str) -> dict[int, int]:
        return self.ask("begin_offsets", lambda: self.log.begin_offsets(topic))

    def end_offsets(self, topic: str) -> dict[int, int]:
        return self.ask("end_offsets", lambda: self.log.end_offsets(topic))

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> FlakyReader:
        return self.ask("reader", lambda: FlakyReader(self, self.log.reader(positions, grows, gathers)))

    def subscribe(self, group: str, topics: Sequence[str], gathers: bool = False) -> FlakyGroupReader:
        return self.ask("subscribe", lambda: self._subscribe(group, topics, gathers))

    def _subscribe(self, group: str, topics: Sequence[str], gathers: bool) -> FlakyGroupReader:
        member = self.log.subscribe(group, topics, gathers)
        self._members.append(member)
        return FlakyGroupReader(self, group, member)

    def close(self) -> None:
        self.log.close()


class FlakyReader(Closing):
    """See :class:`millrace_wal.record.Reader`. When its client has ended, it goes on from where it stands."""

    def __init__(self, log: FlakyLog, reader: MemoryReader) -> None:
        self._log, self._reader = log, reader

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return self._log.ask("poll", lambda: self._reader.poll(timeout, limit))

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        return stretches_of(self.poll(timeout, limit), self._log.log.traceparents)

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        self._log.call("add", lambda: self._reader.add(topic, positions))

    def remove(self, topic: str) -> None:
        self._reader.remove(topic)

    def positions(self) -> Positions:
        return self._reader.positions()

    def moved(self) -> Positions:
        return self._reader.moved()

    def close(self) -> None:
        self._reader.close()


class FlakyGroupReader(Closing):
    """See :class:`millrace_wal.record.GroupReader`."""

    def __init__(self, log: FlakyLog, group: str, reader: MemoryGroupReader) -> None:
        self._log, self._group, self._reader = log, group, reader

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return self._log.ask("poll", lambda: self._reader.poll(timeout, limit), self._reader.end_client)

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        return stretches_of(self.poll(timeout, limit), self._log.log.traceparents)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._log.call("commit", lambda: self._commit(offsets), lambda: None, self._reader.end_client)

    def _commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        mine = self._reader.assigned()
        taken = {where: offset for where, offset in offsets.items() if where in mine}
        self._log.on_commit(self._group, taken)
        self._reader.commit(taken)

    def end_client(self) -> None:
        self._reader.end_client()

    def assigned(self) -> set[tuple[str, int]]:
        return self._reader.assigned()

    def positions(self) -> Positions:
        return self._reader.positions()

    def close(self) -> None:
        self._reader.close()
