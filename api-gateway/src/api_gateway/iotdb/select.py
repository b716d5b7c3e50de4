"""SELECT: its queries go to calc-svc like any user's; the answer is put together here."""

from __future__ import annotations

from dataclasses import replace

from api_gateway.context import Context
from api_gateway.iotdb.known import known, refuse_hidden, selected
from api_gateway.session import Session
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb import times
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.dialect.iotdb.select.assemble import Result, assemble
from millrace_core.dialect.iotdb.select.lower import Fetch, Query, lower
from millrace_core.errors import MillraceError
from millrace_core.privileges import Need, check


def select(context: Context, session: Session, statement: s.Select, most: int | None = None) -> Result:
    """Run a SELECT. ``most``: one row more than this is enough to know that there are too many."""
    meant = times.TimeContext(session.now, session.timezone)
    return ask(context, session, lower(statement, readable(context, session, statement), meant, most=most))


def readable(context: Context, session: Session, statement: s.Select) -> Schema:
    """The schema for a SELECT. :raises MillraceError: PERMISSION for a device that the user must not read."""
    refuse_hidden(context, session, "read", selected(statement))
    return known(context, session, "read")


def ask(context: Context, session: Session, query: Query) -> Result:
    """The answer of a lowered query."""
    return assemble(query, [_rows(context, session, fetch) for fetch in query.fetches])


def _rows(context: Context, session: Session, fetch: Fetch) -> list[list[object]]:
    # checked again: the query was lowered by what was readable at that time
    check(context.catalog, session.user, (Need("read", fetch.db, table=name) for name in fetch.devices))
    asking = replace(session, database=fetch.db, dialect="tdengine")
    try:
        answer = context.calc.query(fetch.sql, asking, context.writer.position, context.written.ends())
    except MillraceError as error:
        # without the error's place: it is in a text that the user has not written
        raise MillraceError(error.code, error.message) from error
    return [list(row) for row in answer.rows]
