"""Continuous queries: how they are made, listed and dropped, and how one is run once (decision 0052)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from api_gateway.context import Context, fresh_uid
from api_gateway.firing import Firing
from api_gateway.iotdb.into import run_into
from api_gateway.iotdb.known import known
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.iotdb.select import readable
from api_gateway.session import Session
from millrace_core.catalog import key_of
from millrace_core.dialect.iotdb import IotdbError, Status, parse, times
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import semantic
from millrace_core.dialect.iotdb.paths import write_path
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.dialect.iotdb.select.into import Goal, goals
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.errors import MillraceError
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.privileges import OF_DATABASE, SUPERUSER, Need, check, is_superuser
from millrace_core.timeline.continuous import Run, first, span
from millrace_core.timeline.precision import milliseconds
from millrace_service import instant

WAIT, REST = 0.2, 1.0
"""The most seconds between two looks at which query is due: while there are queries, and otherwise."""


def create_cq(context: Context, session: Session, statement: s.CreateCq) -> Done:
    least = context.settings.cq_least_every_ms
    if statement.every < least:
        raise semantic(
            f"{statement.name}: EVERY is {statement.every} ms, but must be at least {least} ms "
            "(MILLRACE_CQ_LEAST_EVERY_MS)",
            statement.position,
        )
    meant = times.TimeContext(session.now, session.timezone)
    made = ContinuousQuery(
        statement.name, fresh_uid(statement.name), statement.text, session.user, session.timezone,
        milliseconds(session.now), statement.every, times.resolve(statement.boundary, meant),
        statement.start, statement.end, statement.discard,
    )  # fmt: skip
    with context.writer.ddl:
        schema, targets = readable(context, session, statement.select), known(context, session)
        query = lower(statement.select, schema, meant, span=span(made, first(made)))
        check(context.catalog, session.user, [_need(goal, targets) for goal in goals(query, schema)])
        if made.name in context.catalog.cqs:
            raise IotdbError(
                Status.CQ_ALREADY_EXIST, f"the continuous query {made.name} already exists",
                statement.position,
            )  # fmt: skip
        context.writer.write([made])
        context.continuous.enter(made)
    return Done()


def _need(goal: Goal, schema: Schema) -> Need:
    db = schema.database_of(goal.device)
    if db is None:
        return SUPERUSER
    known = schema.device(goal.device) is not None
    return Need("write", db, table=write_path(goal.device) if known else OF_DATABASE)


def find(
    context: Context, session: Session, statement: s.DropCq | s.DiagnoseCq | s.VerifyCq
) -> ContinuousQuery:
    """The user's query of that name; a superuser has access to all.
    :raises IotdbError: NO_SUCH_CQ."""
    found = context.catalog.cqs.get(statement.name)
    if found is None or (found.user != session.user and not is_superuser(context.catalog, session.user)):
        raise IotdbError(
            Status.NO_SUCH_CQ, f"there is no continuous query {statement.name}", statement.position
        )
    return found


def drop_cq(context: Context, session: Session, statement: s.DropCq) -> Done:
    with context.writer.ddl:
        found = find(context, session, statement)
        context.writer.write(remove=[key_of(found)])
        context.continuous.leave(context.log, found.uid)
    return Done()


def show_cqs(context: Context, session: Session, _statement: s.ShowCqs) -> Listing:
    """The user's queries; for a superuser, all."""
    every = is_superuser(context.catalog, session.user)
    found = [one for _, one in sorted(context.catalog.cqs.items()) if every or one.user == session.user]
    rows: list[tuple[object, ...]] = [(one.name, one.text, "active") for one in found]
    return Listing(("cq_id", "query", "state"), ("TEXT",) * 3, rows)


# -- runs ----------------------------------------------------------------------------------------------------


def run_once(context: Context, run: Run) -> int:
    """Read the range of the run and write the result; returns how many rows there were.

    :raises MillraceError: if it cannot be done; some rows may have been written, and are written again on the
        next try.
    """
    query = run.query
    statement = parse(query.text)
    assert isinstance(statement, s.CreateCq)
    session = Session(query.user, None, query.timezone, time.time_ns())

    @contextmanager
    def standing() -> Iterator[None]:
        """Nothing is written for a query that has been dropped."""
        with context.writer.ddl:
            if context.catalog.cqs.get(query.name) != query:
                raise IotdbError(Status.NO_SUCH_CQ, f"the continuous query {query.name} was dropped")
            yield

    # the write waits for no trigger: a trigger may need the lock that is held here
    firing = Firing(waits=False)
    _, result = run_into(context, session, statement.select, firing, span(query, run.instant), standing)
    return result.rows


class CqRunner:
    """Runs queries that are due, one at a time; a work of :class:`millrace_service.Life`. Several runners
    share the queries. ``run``: does one run, see :func:`run_once`; ``clock``: gives nanoseconds since the
    epoch."""

    def __init__(
        self, context: Context, run: Callable[[Run], int], number: int,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self.name, self.stopping = f"continuous-{number}", threading.Event()
        self._context, self._run, self._clock = context, run, clock

    def begin(self) -> None:
        """There is nothing to open: the context says what is to be done."""

    def step(self) -> None:
        continuous, now = self._context.continuous, self._clock()
        run = continuous.take(now)
        if run is None:
            due = continuous.next_at()
            self.stopping.wait(REST if due is None else min(max((due - now) / 1e9, 0.001), WAIT))
            return
        begin = time.monotonic_ns()
        try:
            rows = self._run(run)
            took = time.monotonic_ns() - begin
            continuous.succeeded(self._context.log, run, rows, self._clock(), took)
        except MillraceError as error:
            self._failed(run, error, time.monotonic_ns() - begin)

    def _failed(self, run: Run, error: MillraceError, took: int) -> None:
        logger, why = self._context.logger, str(error)
        try:
            news = self._context.continuous.failed(self._context.log, run, why, self._clock(), took)
        except MillraceError as unsaid:
            news, why = True, f"{why}; this failure could not be recorded: {unsaid}"
        if news:
            logger.warning(
                "a run of a continuous query failed", query=run.query.name, instant=run.instant, reason=why
            )

    def end(self) -> None:
        """There is nothing to close."""

    def look(self) -> tuple[object, str]:
        """How many runs have ended, and what is due."""
        continuous = self._context.continuous
        due = continuous.next_at()
        late = due is not None and due < self._clock()
        return (
            continuous.ended,
            f"a continuous query has been due since {instant(due / 1e9)}" if due and late else "",
        )
