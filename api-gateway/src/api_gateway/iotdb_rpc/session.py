"""A connection of IoTDB's RPC: who has logged in, and the answers that are fetched part by part."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count

from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb.reply import Listing
from api_gateway.session import Session
from millrace_core.catalog import User
from millrace_core.dialect.iotdb import IotdbError, Status
from millrace_core.dialect.iotdb.select.assemble import Result
from millrace_core.errors import MillraceError
from millrace_core.timeline.calendar import zone
from millrace_core.wire.iotdb.blocks import block

MOST_OPEN = 64
"""How many answers of a connection may be partly fetched; if there are more, the oldest are closed."""
FETCH = 5_000
"""Rows per block, if a client does not say how many."""
MOST_FETCH = 100_000


@dataclass(slots=True)
class Cursor:
    """An answer, and how much of it was sent. ``times``: None if rows have none."""

    names: list[str]
    types: list[str]
    columns: list[list[object]]
    times: list[int] | None
    rows: int
    sent: int = 0

    @property
    def more(self) -> bool:
        return self.sent < self.rows

    def take(self, wanted: int | None) -> list[bytes]:
        """The next rows as blocks; no blocks if no rows are left."""
        size = min(wanted if wanted is not None and wanted > 0 else FETCH, MOST_FETCH)
        begin, end = self.sent, min(self.sent + size, self.rows)
        if begin == end:
            return []
        self.sent = end
        times = None if self.times is None else self.times[begin:end]
        return [block(self.types, [column[begin:end] for column in self.columns], times, end - begin)]


def cursor_of(reply: Result | Listing) -> Cursor:
    if isinstance(reply, Listing):
        columns = [list(column) for column in zip(*reply.rows, strict=True)] or [[] for _ in reply.names]
        return Cursor(list(reply.names), list(reply.types), columns, None, len(reply.rows))
    names, types, columns = list(reply.names), list(reply.types), list(reply.values)
    if reply.devices is not None:
        names, types, columns = ["Device", *names], ["TEXT", *types], [list(reply.devices), *columns]
    return Cursor(names, types, columns, reply.times, reply.rows)


@dataclass
class Client:
    """One connection; its calls come one after the other. The session belongs to the connection: the session
    numbers in calls are ignored (IoTDB's own Python client mixes them up)."""

    logins: IotdbLogins
    address: str
    timezone: str
    user: User | None = None
    cursors: OrderedDict[int, Cursor] = field(default_factory=OrderedDict)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def log_in(self, name: str, password: str, timezone: str | None) -> int:
        """Log in; returns the session's number. :raises MillraceError: AUTHENTICATION; INVALID_VALUE for an
        unknown time zone."""
        user = self.logins.check(name, password, self.address)
        if timezone:
            self.set_timezone(timezone)
        self.log_out()
        self.user = user
        return next(self.numbers)

    def log_out(self) -> None:
        self.user = None
        self.cursors.clear()

    def set_timezone(self, name: str) -> None:
        """:raises IotdbError: ILLEGAL_PARAMETER if there is no time zone of that name."""
        try:
            zone(name)
        except MillraceError as error:
            raise IotdbError(Status.ILLEGAL_PARAMETER, error.message) from None
        self.timezone = name

    def session(self) -> Session:
        """For whom a call runs. :raises MillraceError: if nobody has logged in, or is no longer let in."""
        if self.user is None:
            raise IotdbError(
                Status.NO_LOGIN, "no user has logged in on this connection: call openSession first"
            )
        self.logins.stands(self.user)
        return Session(self.user.name, None, self.timezone, time.time_ns())

    # -- answers ---------------------------------------------------------------------------------------------

    def keep(self, cursor: Cursor) -> int:
        """Keep a cursor; returns the number by which the rest is fetched. One without a rest is not kept."""
        number = next(self.numbers)
        if cursor.more:
            self.cursors[number] = cursor
            while len(self.cursors) > MOST_OPEN:
                self.cursors.popitem(last=False)
        return number

    def fetch(self, number: int, wanted: int | None) -> tuple[list[bytes], bool]:
        """The next blocks of an answer, and whether there are more. None if it is over or closed."""
        cursor = self.cursors.get(number)
        if cursor is None:
            return [], False
        blocks = cursor.take(wanted)
        if not cursor.more:
            self.close(number)
        return blocks, cursor.more

    def close(self, number: int | None) -> None:
        """Close an answer; None: all of them."""
        if number is None:
            self.cursors.clear()
        else:
            self.cursors.pop(number, None)
