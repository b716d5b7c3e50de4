"""When continuous queries run, and over which times (seed 004; SEMANTICS-FRONTENDS, S6). Milliseconds.

The first instant is the query's earliest one that is not before its creation. BLOCKED runs every instant
after it, in order; DISCARD goes on with the first instant that is not yet past when a run has ended. A run
that fails is tried again, for the same instant, until it succeeds. After a restart a query goes on with the
instant after the last one known to be done, whatever its policy.
"""

from __future__ import annotations

from dataclasses import dataclass

from millrace_core.model.continuous import ContinuousQuery

MOST_PAUSE = 20_000
"""How long until a failed run is tried again, unless the next instant comes sooner."""


def first(query: ContinuousQuery) -> int:
    """The first instant."""
    return _not_before(query, query.boundary, query.created)


def following(query: ContinuousQuery, done: int, now: int) -> int:
    """The next instant after ``done``, if the run of that one has ended ``now``."""
    after = done + query.every
    return _not_before(query, after, now) if query.discard else after


def span(query: ContinuousQuery, instant: int) -> tuple[int, int]:
    """The times [first, last) that the run of an instant covers."""
    return instant - query.start, instant - query.end


def instants(query: ContinuousQuery, begin: int, end: int) -> range:
    """The instants of the query from ``begin`` on and before ``end``."""
    return range(_not_before(query, first(query), begin), end, query.every)


def pause(query: ContinuousQuery) -> int:
    """How long after a failure the query's run is tried again."""
    return min(MOST_PAUSE, query.every)


def _not_before(query: ContinuousQuery, instant: int, now: int) -> int:
    """The first instant from this one on that is not before ``now``."""
    missing = max(now - instant, 0)
    return instant + -(-missing // query.every) * query.every


@dataclass(frozen=True, slots=True)
class Run:
    """The run of a query at an instant."""

    query: ContinuousQuery
    instant: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Which instant is next, the earliest time of its run, and whether it runs now."""

    instant: int
    at: int
    running: bool


@dataclass(slots=True)
class _Turn:
    """``at``: not before this time. ``taken``: it runs now."""

    run: Run
    at: int
    taken: bool = False


class Turns:
    """Decides whose run is next. A query has one run at a time. The query that has waited longest goes first,
    so that one with many late instants does not keep the others waiting."""

    def __init__(self) -> None:
        self._turns: dict[int, _Turn] = {}

    def enter(self, query: ContinuousQuery, done: int | None = None) -> None:
        """Take in a query that is new, or one that goes on after the instant ``done`` after a restart."""
        instant = first(query) if done is None else done + query.every
        self._turns[query.uid] = _Turn(Run(query, instant), instant)

    def leave(self, uid: int) -> None:
        """The query is dropped. A run under way may still end."""
        self._turns.pop(uid, None)

    def knows(self, run: Run) -> bool:
        """Whether this very run has the turn, so that its query has not been dropped."""
        turn = self._turns.get(run.query.uid)
        return turn is not None and turn.run is run

    def take(self, now: int) -> Run | None:
        """The run that begins now, if one is due."""
        due = (turn for turn in self._turns.values() if not turn.taken and turn.at <= now)
        turn = min(due, key=lambda one: (one.at, one.run.query.name), default=None)
        if turn is None:
            return None
        turn.taken = True
        return turn.run

    def succeeded(self, run: Run, now: int) -> None:
        """The rows of the run are written."""
        if turn := self._ended(run):
            query = run.query
            turn.run = Run(query, following(query, run.instant, now))
            turn.at = max(turn.run.instant, now)

    def standing(self, uid: int) -> Standing | None:
        """Where a query stands; None: it is not known."""
        turn = self._turns.get(uid)
        return None if turn is None else Standing(turn.run.instant, turn.at, turn.taken)

    def failed(self, run: Run, now: int) -> None:
        if turn := self._ended(run):
            turn.at = now + pause(run.query)

    def _ended(self, run: Run) -> _Turn | None:
        if not self.knows(run):
            return None
        turn = self._turns[run.query.uid]
        turn.taken = False
        return turn

    def next_at(self) -> int | None:
        """When the next of the waiting runs is due; None: none waits."""
        return min((turn.at for turn in self._turns.values() if not turn.taken), default=None)
