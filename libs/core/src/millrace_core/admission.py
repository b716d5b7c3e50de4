"""Which users' queries may begin, so that no user can take the process that runs them away from the others.

A query that cannot be stopped, or that takes all memory, ends that process. Each end is remembered with the
users whose query may have caused it. Where several users had queries running, nobody knows whose it was. So a
user is at fault only if nobody else was present at all of that user's ends. Users who were present at an end
no longer run queries beside one another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import NamedTuple

User = str | None
"""None: a query that belongs to no named user."""


class End(NamedTuple):
    """``users``: those whose query may have ended the process. ``at``: seconds."""

    at: float
    users: frozenset[User]


class Refused(NamedTuple):
    """``until``: seconds; ``ends``: how often this user has ended the process."""

    until: float
    ends: int


class Admission:
    """``lanes``: queries that run side by side. ``most``: after this many ends of the process within
    ``seconds``, a user's queries are refused for as long (0 seconds: they never are). Each call is told the
    time, in seconds of a clock that never goes back."""

    def __init__(self, lanes: int, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._share = max(1, lanes - 1)
        self._ends: deque[End] = deque()
        self._refused: dict[str, Refused] = {}

    def ended(self, users: Collection[User], now: float) -> frozenset[str]:
        """A query of one of these users has ended the process. Returns the users who are refused from now on
        and were not before."""
        self._forget(now)
        self._ends.append(End(now, frozenset(users)))
        if not self._seconds:
            return frozenset()
        faults = {user: self._faults(user) for user in users if user is not None}
        found = {user: Refused(now + self._seconds, n) for user, n in faults.items() if n >= self._most}
        newly = frozenset(found.keys() - self._refused.keys())
        self._refused |= found
        return newly

    def refused(self, user: User, now: float) -> Refused | None:
        """Until when this user's queries are refused; None: they are not."""
        self._forget(now)
        return None if user is None else self._refused.get(user)

    def all_refused(self, now: float) -> Mapping[str, Refused]:
        self._forget(now)
        return dict(self._refused)

    def may_begin(self, user: User, running: Mapping[User, int], now: float, *, spared: bool) -> bool:
        """Whether a query of this user may take a lane that is free. ``running``: lanes that users have;
        ``spared``: another end would keep nobody waiting.

        The last lane is for a user who has none. A user who has ended the process waits until the next
        process stands ready. Users who were present at ends run one after the other: so the next end tells
        whose fault it was, and no two users can get a third one refused."""
        self._forget(now)
        there = frozenset[User]().union(*(end.users for end in self._ends))
        alone = user not in there or not there & running.keys() - {user}
        return running.get(user, 0) < self._share and alone and (spared or not self._faults(user))

    def _faults(self, user: User) -> int:
        """How often this user has ended the process, of late."""
        there = [end for end in self._ends if user in end.users]
        if not there or len(frozenset.intersection(*(end.users for end in there))) > 1:
            return 0
        return len(there)

    def _forget(self, now: float) -> None:
        # even without a penalty, ends count for a minute: their user still waits for the next process
        while self._ends and self._ends[0].at + (self._seconds or 60.0) <= now:
            self._ends.popleft()
        for user in [user for user, one in self._refused.items() if one.until <= now]:
            del self._refused[user]
