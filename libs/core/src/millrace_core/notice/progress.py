"""The offsets up to which the log is done: everything before them was delivered or dropped."""

from __future__ import annotations

from dataclasses import dataclass

Partition = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A record with events that are under way: ``left`` of them."""

    place: Partition
    offset: int
    left: int


class CommitProgress:
    """Follows records from being read to being done. Records may be done in any order; an offset is committed
    only when everything before it is done.

    The reading of a partition may go back, if the partition was given away and has come back. A record that
    is still under way is then not begun a second time; the others are.
    """

    def __init__(self) -> None:
        self._open: dict[Partition, dict[int, Ticket]] = {}  # each in the order of offsets
        self._next: dict[Partition, int] = {}
        self._told: dict[Partition, int] = {}
        self.waiting = 0
        """Events under way."""

    def begin(self, place: Partition, offset: int, events: int) -> Ticket | None:
        """A record was read that holds this many events to deliver. None: the record is already under way."""
        self._next[place] = offset + 1
        tickets = self._open.setdefault(place, {})
        if offset in tickets:
            return None
        ticket = Ticket(place, offset, events)
        if events:
            back = bool(tickets) and offset < next(reversed(tickets))
            tickets[offset] = ticket
            self.waiting += events
            if back:
                self._open[place] = dict(sorted(tickets.items()))
        return ticket

    def done(self, ticket: Ticket) -> None:
        """One of the record's events was delivered or dropped."""
        ticket.left -= 1
        self.waiting -= 1
        if ticket.left == 0:
            del self._open[ticket.place][ticket.offset]

    def passed(self, place: Partition, offset: int) -> bool:
        """Whether this record was read and is done."""
        return self._next.get(place, 0) > offset and offset not in self._open[place]

    def commits(self) -> dict[Partition, int]:
        """For each partition the offset up to which all is done, if it has changed since the last call."""
        found: dict[Partition, int] = {}
        for place, after in self._next.items():
            tickets = self._open[place]
            reached = min(next(iter(tickets), after), after)
            if self._told.get(place, -1) != reached:
                found[place] = self._told[place] = reached
        return found
