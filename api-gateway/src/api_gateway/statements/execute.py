"""One SQL text in, one answer out: a table says which function answers which statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from api_gateway.answer import INT, Answer, AnswerColumn, text_column
from api_gateway.context import Context
from api_gateway.running import Running
from api_gateway.session import Session
from api_gateway.statements.alter import alter_table
from api_gateway.statements.anodes import create_anode, drop_anode, show_anodes, update_anode
from api_gateway.statements.data import delete, insert
from api_gateway.statements.databases import create_database, drop_database, use_database
from api_gateway.statements.diagnose import diagnose_stream
from api_gateway.statements.needs import needs_of
from api_gateway.statements.queries import kill_query
from api_gateway.statements.shows import describe, show, show_create, show_tags
from api_gateway.statements.stream_life import (
    drop_stream,
    pause_stream,
    recalculate_stream,
    resume_stream,
    start_stream,
    stop_stream,
)
from api_gateway.statements.streams import create_stream, explain_stream
from api_gateway.statements.tables import create_children, create_table, drop_tables
from api_gateway.statements.users import alter_user, create_snode, create_user, drop_snode, drop_user, grant
from api_gateway.statements.verify import verify_stream
from api_gateway.statements.virtual import create_virtual_child
from millrace_core.catalog import SYSTEM_DATABASES
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language import statements
from millrace_core.privileges import check, knows_database

SERVER_VERSION = "3.3.7.0.millrace"
"""The TDengine version whose SQL and protocol this is, in the form of its own versions with a suffix."""

_FACT = re.compile(r"\s*select\s+(\w+)\s*\(\s*\)\s*;?\s*", re.IGNORECASE)

FACTS: dict[str, tuple[AnswerColumn, Callable[[Session], object]]] = {
    "server_version": (text_column("server_version()", 32), lambda _: SERVER_VERSION),
    "client_version": (text_column("client_version()", 32), lambda _: SERVER_VERSION),
    "server_status": (AnswerColumn("server_status()", INT), lambda _: 1),
    "database": (text_column("database()", 64), lambda session: session.database),
    "current_user": (text_column("current_user()", 64), lambda session: session.user),
}
"""The ``SELECT name()`` that only the gateway can answer."""


def _query(context: Context, session: Session, sql: str) -> Answer:
    # the whole text is sent, so that places in calc-svc's errors are places in what the user wrote
    return context.calc.query(sql, session, context.writer.position, context.written.ends())


Handler = Callable[[Context, Session, Any], Answer]

HANDLERS: dict[type, Handler] = {
    statements.CreateDatabase: create_database,
    statements.DropDatabase: drop_database,
    statements.UseDatabase: use_database,
    statements.CreateTable: create_table,
    statements.CreateChildren: create_children,
    statements.CreateVirtualChild: create_virtual_child,
    statements.DropTables: drop_tables,
    statements.AlterTable: alter_table,
    statements.Insert: insert,
    statements.Delete: delete,
    statements.CreateStream: create_stream,
    statements.CreateLegacyStream: create_stream,
    statements.ExplainStream: explain_stream,
    statements.StartStream: start_stream,
    statements.StopStream: stop_stream,
    statements.PauseStream: pause_stream,
    statements.ResumeStream: resume_stream,
    statements.RecalculateStream: recalculate_stream,
    statements.DiagnoseStream: diagnose_stream,
    statements.VerifyStream: verify_stream,
    statements.DropStream: drop_stream,
    statements.KillQuery: kill_query,
    statements.Show: show,
    statements.ShowCreate: show_create,
    statements.ShowTags: show_tags,
    statements.Describe: describe,
    statements.CreateUser: create_user,
    statements.AlterUser: alter_user,
    statements.DropUser: drop_user,
    statements.Grant: grant,
    statements.CreateSnode: create_snode,
    statements.DropSnode: drop_snode,
    statements.CreateAnode: create_anode,
    statements.UpdateAnode: update_anode,
    statements.DropAnode: drop_anode,
    statements.ShowAnodes: show_anodes,
}
READERS = frozenset({
    statements.Show, statements.ShowCreate, statements.ShowTags, statements.Describe, statements.UseDatabase,
    statements.Query, statements.ShowAnodes, statements.DiagnoseStream, statements.VerifyStream,
    statements.ExplainStream, statements.KillQuery,
})  # fmt: skip
"""Statements that change nothing."""


class Executor:
    """Runs statements; :meth:`execute` may be called by many threads."""

    def __init__(self, context: Context, running: Running) -> None:
        self._context = context
        self._running = running

    def execute(self, session: Session, sql: str) -> Answer:
        """The answer of one statement.

        :raises MillraceError: if it is refused or fails, as the statement's own documentation says.
        """
        with self._running.counted("unknown", sql) as counted:
            if (match := _FACT.fullmatch(sql)) and (fact := FACTS.get(match[1].lower())):
                counted.kind = "Fact"
                return Answer((fact[0],), [[fact[1](self._chosen(session))]])
            statement = FRONT_ENDS[session.dialect].parse(sql)
            counted.kind = type(statement).__name__
            return self._run(session, sql, statement)

    def abandon(self, session: Session) -> None:
        """The client of the statement has gone away."""
        self._running.abandon(session)

    def _chosen(self, session: Session) -> Session:
        """The session, without its database if the user may not know about that. Statements that need a
        database say so themselves; one that makes it, or names another, needs none."""
        db = session.database
        known = db is None or db in SYSTEM_DATABASES
        known = known or knows_database(self._context.catalog, session.user, db or "")
        return session if known else replace(session, database=None)

    def _run(self, session: Session, sql: str, statement: statements.Statement) -> Answer:
        catalog = self._context.catalog
        check(catalog, session.user, needs_of(catalog, session, statement))
        if isinstance(statement, statements.Query):
            return _query(self._context, session, sql)
        handler = HANDLERS.get(type(statement))
        if handler is None:
            raise SqlError(ErrorCode.UNSUPPORTED, f"{_words(statement)} is not supported yet")
        with self._running.changing(type(statement) not in READERS):
            return handler(self._context, session, statement)


def _words(statement: statements.Statement) -> str:
    """``ALTER TABLE`` of an AlterTable."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(statement).__name__).upper()
