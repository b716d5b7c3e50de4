"""What to do for one address: when to connect, what to send, what to drop. A state machine without I/O.

The caller reports what happened (``offer``, ``connected``, ``acknowledged``, ``lost``) and asks what to do
(``connect_in``, ``take``). Each event leaves exactly once, delivered or dropped, in the order of arrival. A
message is delivered when the receiver has confirmed it. An unconfirmed message is sent again over the next
connection, unchanged and with the same messageId.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice.message import Outgoing, compose, take_fitting


@dataclass(frozen=True, slots=True)
class Policy:
    """``retries``: how many failed attempts in a row may follow the first one before waiting events are
    dropped; after that, each further failed attempt drops what waits. The pause between attempts begins with
    ``first_pause`` seconds and doubles up to ``longest_pause``. ``stuck_after``: after this many failed
    attempts in a row, streams that must lose nothing wait. ``window``: how many messages may be under way at
    a time. ``message_bytes``: the longest message (a longer event goes alone). ``stuck_events``: how many
    events may wait for a stuck address (in addition to those that must be kept)."""

    retries: int = 5
    stuck_after: int = 2
    stuck_events: int = 50_000
    first_pause: float = 0.1
    longest_pause: float = 5.0
    window: int = 8
    message_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Outbound:
    """A message to send. ``number`` grows; confirming one message confirms all before it."""

    number: int
    text: bytes
    events: tuple[Outgoing, ...]


class Delivery:
    """Delivery to one address. ``now`` is in seconds of a clock that never goes back."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: deque[Outgoing] = deque()
        self._under_way: deque[Outbound] = deque()
        self._sent = 0  # how many of the messages under way were sent over this connection
        self._number = 0
        self._open = False
        self._failures = 0
        self._retry_at = 0.0
        self._slow = False

    @property
    def waiting(self) -> int:
        """How many events are neither delivered nor dropped."""
        return len(self._waiting) + sum(len(message.events) for message in self._under_way)

    @property
    def stuck(self) -> bool:
        """The address accepts nothing, or less than it is given: streams that must lose nothing wait for
        it."""
        return self._slow or self._failures >= self._policy.stuck_after

    @property
    def slow(self) -> bool:
        """The address confirms what it gets, but it was marked as holding up others (:meth:`slow_down`), and
        it has not caught up since."""
        return self._slow

    @property
    def idle(self) -> bool:
        """Nothing is to be delivered."""
        return not self._waiting and not self._under_way

    @property
    def failing(self) -> bool:
        """The last attempt failed and nothing has been delivered since."""
        return self._failures > 0

    @property
    def unconfirmed(self) -> int | None:
        """The number of the oldest message that was sent over this connection and is not confirmed."""
        return self._under_way[0].number if self._sent else None

    def offer(self, events: Iterable[Outgoing]) -> list[Outgoing]:
        """Deliver these events, after all that were offered before. Returns those that a stuck address has no
        room for."""
        self._waiting.extend(events)
        return self._cut() if self.stuck else []

    def slow_down(self) -> list[Outgoing]:
        """The address has held up others. Until it has caught up, only the oldest ``stuck_events`` events
        wait for it, and those that must be kept. Returns the events that this drops."""
        self._slow = True
        return self._cut()

    def release(self, tickets: Callable[[object], bool]) -> None:
        """Events with such tickets need no longer be kept."""

        def loose(event: Outgoing) -> Outgoing:
            return replace(event, keep=False) if event.keep and tickets(event.ticket) else event

        self._waiting = deque(map(loose, self._waiting))
        self._under_way = deque(
            replace(message, events=tuple(map(loose, message.events))) for message in self._under_way
        )

    def undelivered(self) -> Iterator[Outgoing]:
        """The events that are neither delivered nor dropped, the oldest first."""
        for message in self._under_way:
            yield from message.events
        yield from self._waiting

    def _cut(self) -> list[Outgoing]:
        room = self._policy.stuck_events
        if len(self._waiting) <= room:
            return []
        first, rest = list(islice(self._waiting, room)), list(islice(self._waiting, room, None))
        self._waiting = deque([*first, *(event for event in rest if event.keep)])
        return [event for event in rest if not event.keep]

    def connect_in(self, now: float) -> float | None:
        """In how many seconds to connect; None: not wanted, there is a connection or nothing to deliver."""
        if self._open or self.idle:
            return None
        return max(self._retry_at - now, 0.0) if self._failures else 0.0

    def connected(self) -> None:
        """There is a connection. Only the first confirmation shows whether it works."""
        if self._open:
            raise MillraceError(ErrorCode.INTERNAL, "the address is already connected")
        self._open = True

    def take(self, message_id: str, timestamp: int) -> Outbound | None:
        """The next message to send, if there is one to send now; ``message_id`` is for a new message."""
        if not self._open:
            return None
        if self._sent == len(self._under_way):
            if not self._waiting or self._sent >= self._policy.window:
                return None
            events = take_fitting(self._waiting, message_id, self._policy.message_bytes)
            self._number += 1
            text = compose(message_id, timestamp, events)
            self._under_way.append(Outbound(self._number, text, tuple(events)))
        self._sent += 1
        return self._under_way[self._sent - 1]

    def acknowledged(self, number: int) -> list[Outgoing]:
        """The receiver has confirmed this message and all before it. Returns the events that this delivers;
        none for a number that is not under way."""
        delivered: list[Outgoing] = []
        while self._sent and self._under_way[0].number <= number:
            delivered.extend(self._under_way.popleft().events)
            self._sent -= 1
        if delivered:
            self._failures = 0
            self._slow = self._slow and len(self._waiting) > self._policy.stuck_events // 2
        return delivered

    def lost(self, now: float) -> list[Outgoing]:
        """The connection ended, or could not be made. Returns the events that this drops."""
        self._open = False
        self._sent = 0
        if self.idle:
            return []  # not a failure: the receiver may close a connection that carries nothing
        self._failures += 1
        pause = self._policy.first_pause * 2.0 ** min(self._failures - 1, 30)
        self._retry_at = now + min(pause, self._policy.longest_pause)
        return self._drop() if self._failures > self._policy.retries else []

    def _drop(self) -> list[Outgoing]:
        everything = list(self.undelivered())
        dropped = [event for event in everything if not event.keep]
        if dropped:
            # the events that are kept go out in new messages
            self._under_way.clear()
            self._waiting = deque(event for event in everything if event.keep)
        return dropped
