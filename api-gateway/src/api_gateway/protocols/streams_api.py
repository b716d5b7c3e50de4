"""The resource API of streams: ``/api/v1/streams``."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from api_gateway.access.body import known_first
from api_gateway.access.login import Logins, address_of, read_authorization
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.execute import Executor
from api_gateway.statements.shows import state_for
from millrace_core.catalog import StreamEntry
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.language import statements
from millrace_core.language.lexer import quote_name
from millrace_core.model.life import life_of
from millrace_core.privileges import OF_DATABASE, Need, check, sees
from millrace_core.trigger.types import type_of


class Problem(BaseModel):
    """Why a request was refused; ``line`` and ``column`` (from 1) if that is at a place in the SQL."""

    code: str
    message: str
    line: int | None = None
    column: int | None = None


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "model": Problem}
    for status, description in {
        400: "The definition is wrong, or not allowed.",
        401: "The credentials are missing or wrong.",
        403: "The user does not have the privilege.",
        404: "There is no such stream, table or database.",
        409: "The name is taken.",
        422: "A field is missing, unknown, or of the wrong type.",
        503: "A part of the system is unavailable; try again.",
        504: "A part of the system did not answer in time; try again.",
    }.items()
}


class NewStream(BaseModel):
    """A stream: either ``sql``, a whole CREATE STREAM, or its clauses one by one, each as written in SQL.

    The clauses are put together into a statement, each on a line of its own, in the order in which they are
    listed here (name and trigger share the first line). ``line`` and ``column`` of an error refer to that
    statement.
    """

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {"sql": "CREATE STREAM power.s1 INTERVAL(1m) SLIDING(1m) FROM power.meters "
                        "INTO power.avg_amps AS SELECT _twstart, avg(amps) FROM %%trows"},
                {"name": "power.s1", "trigger": "INTERVAL(1m) SLIDING(1m)", "from": "power.meters",
                 "partition_by": ["tbname"], "into": "power.avg_amps",
                 "query": "SELECT _twstart, avg(amps) FROM %%trows"},
            ]
        },
    )  # fmt: skip

    sql: str | None = None
    name: str | None = Field(None, description="`db.stream`")
    if_not_exists: bool = False
    trigger: str | None = Field(None, description="`INTERVAL(1m) SLIDING(1m)`, …")
    table: str | None = Field(None, alias="from", description="The trigger table.")
    partition_by: list[str] = []
    options: list[str] = Field([], description="STREAM_OPTIONS, such as `WATERMARK(5s)`.")
    notify: str | None = Field(None, description="What follows NOTIFY: `('ws://…') ON (WINDOW_CLOSE)`.")
    into: str | None = Field(None, description="The output table.")
    output_subtable: str | None = Field(None, description="An expression for the names of sub-tables.")
    columns: list[str] = Field([], description="Names of the output columns.")
    tags: list[str] = Field([], description="`name TYPE AS expression`.")
    query: str | None = Field(None, description="What follows AS.")

    @model_validator(mode="after")
    def _one_form(self) -> NewStream:
        clauses = self.model_fields_set - {"sql"}
        if self.sql is not None and clauses:
            raise ValueError(f"sql cannot be combined with other fields; found {', '.join(sorted(clauses))}")
        if self.sql is None and (self.name is None or self.trigger is None):
            raise ValueError("either sql, or name and trigger, must be given")
        return self

    def statement(self) -> str:
        """The CREATE STREAM that this is."""
        if self.sql is not None:
            return self.sql
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        parts = [
            f"CREATE STREAM {exists}{self.name} {self.trigger}",
            f"FROM {self.table}" if self.table else "",
            f"PARTITION BY {', '.join(self.partition_by)}" if self.partition_by else "",
            f"STREAM_OPTIONS({' | '.join(self.options)})" if self.options else "",
            f"NOTIFY {self.notify}" if self.notify else "",
            f"INTO {self.into}" if self.into else "",
            f"OUTPUT_SUBTABLE({self.output_subtable})" if self.output_subtable else "",
            f"({', '.join(self.columns)})" if self.columns else "",
            f"TAGS ({', '.join(self.tags)})" if self.tags else "",
            f"AS {self.query}" if self.query else "",
        ]
        return "\n".join(part for part in parts if part)


class Stream(BaseModel):
    """A stream as it is now. ``status``: Init, Running, Stopped, Paused or Failed (``message`` says why); of
    one of the older dialect, whose ``db`` is empty, init, ready, paused or failed."""

    name: str
    db: str
    stream: str
    status: str
    message: str
    trigger: str
    source: str | None
    output: str | None
    created: int = Field(description="Milliseconds since the epoch.")
    sql: str
    events: str = Field(description="WebSocket address at which notify-svc sends the stream's events.")


def resource_router(context: Context, executor: Executor, logins: Logins) -> APIRouter:
    """The routes; errors are ``{code, message, line, column}`` with the code's HTTP status."""

    def session(request: Request, authorization: Annotated[str | None, Header()] = None) -> Session:
        user = logins.check(*read_authorization(authorization), address_of(request))
        return Session(user.name, None, context.settings.timezone, time.time_ns())

    router = APIRouter(
        prefix="/api/v1/streams", tags=["streams"], responses=ERRORS,
        route_class=known_first(logins, context.settings.body_bytes),
    )  # fmt: skip
    who = Depends(session)
    _add_reading(router, context, who)
    _add_changing(router, context, executor, who)
    return router


def _add_reading(router: APIRouter, context: Context, who: Any) -> None:
    @router.get("")
    def listed(db: Annotated[str | None, Query()] = None, session: Session = who) -> list[Stream]:
        """List all streams that the user may know about, or those of one database."""
        entries = [
            e for e in list(context.catalog.streams.values())
            if (db is None or e.spec.db == db) and sees(context.catalog, session.user, e.spec.home)
        ]  # fmt: skip
        return [shown(context, session, e) for e in sorted(entries, key=lambda e: e.spec.full_name)]

    @router.get("/{name}")
    def one(name: str, session: Session = who) -> Stream:
        """The stream ``db.stream``."""
        return shown(context, session, _find(context, session, name))

    @router.get("/{name}/subscription", status_code=204)
    def subscription(name: str, session: Session = who) -> None:
        """Whether the user may subscribe to the stream's events. They carry its results, so this requires the
        privileges to read its database and the table of its results."""
        spec = _find(context, session, name).spec
        needs = [Need("read", spec.home, table=OF_DATABASE)]
        if spec.output is not None:
            needs.append(Need("read", spec.output.db, table=spec.output.table))
        check(context.catalog, session.user, needs)


def _add_changing(router: APIRouter, context: Context, executor: Executor, who: Any) -> None:
    @router.post("", status_code=201)
    def create(new: NewStream, session: Session = who) -> Stream:
        """Create a stream. It is live for rows written after the answer."""
        sql = new.statement()
        statement = FRONT_ENDS[session.dialect].parse(sql)
        match statement:
            case statements.CreateLegacyStream(name=global_name):
                name = global_name.text
            case statements.CreateStream(name=qualified):
                if qualified.db is None:
                    raise SqlError(
                        ErrorCode.NO_DATABASE,
                        f"no database is selected: write db.{qualified.name}",
                        qualified.position,
                    )
                name = str(qualified)
            case _:
                kind = type(statement).__name__
                raise SqlError(ErrorCode.SYNTAX, f"the SQL must be a CREATE STREAM statement, not {kind}")
        executor.execute(session, sql)
        return shown(context, session, _find(context, session, name))

    @router.delete("/{name}", status_code=204)
    def drop(name: str, session: Session = who) -> None:
        """Drop the stream; what it has written is kept."""
        executor.execute(session, f"DROP STREAM {_quoted(_find(context, session, name))}")

    @router.post("/{name}/start")
    def start(name: str, session: Session = who) -> Stream:
        """Start a stopped stream, or resume a paused one."""
        entry = _find(context, session, name)
        executor.execute(session, f"{life_of(entry.spec).start} STREAM {_quoted(entry)}")
        return shown(context, session, _find(context, session, name))

    @router.post("/{name}/stop")
    def stop(name: str, session: Session = who) -> Stream:
        """Stop or pause a stream: rows written after the answer are not evaluated."""
        entry = _find(context, session, name)
        executor.execute(session, f"{life_of(entry.spec).stop} STREAM {_quoted(entry)}")
        return shown(context, session, _find(context, session, name))


def _find(context: Context, session: Session, name: str) -> StreamEntry:
    """The stream ``db.stream``, or the global one, if the user may know about it.

    :raises MillraceError: PERMISSION for a database that the user may not know about, whether or not it
        exists; UNKNOWN_STREAM.
    """
    catalog, user = context.catalog, session.user
    for entry in list(catalog.streams.values()):
        if entry.spec.full_name == name and sees(catalog, user, entry.spec.home):
            return entry
    db, dot, _ = name.partition(".")
    if dot:
        check(catalog, user, [Need("any", db, table=OF_DATABASE)])
    raise CatalogError(ErrorCode.UNKNOWN_STREAM, f"the stream {name} does not exist")


def _quoted(entry: StreamEntry) -> str:
    spec = entry.spec
    return f"{quote_name(spec.db)}.{quote_name(spec.name)}" if spec.db else quote_name(spec.name)


def shown(context: Context, session: Session, entry: StreamEntry) -> Stream:
    """What the API tells of a stream."""
    spec = entry.spec
    status, message = state_for(context, session, entry)
    source = spec.source
    table = f"{source.table.db}.{source.child or source.table.name}" if source else None
    address = context.settings.notify_url.replace("http", "ws", 1)
    return Stream(
        name=spec.full_name, db=spec.db, stream=spec.name, status=status, message=message,
        trigger=type_of(spec.trigger).name, source=table,
        output=f"{spec.output.db}.{spec.output.table}" if spec.output else None,
        created=spec.created, sql=spec.shown_sql, events=f"{address}/api/v1/streams/{spec.full_name}/events",
    )  # fmt: skip
