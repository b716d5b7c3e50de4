"""TDengine's REST protocol: ``/rest/sql``, ``/rest/sql/{db}``, ``/rest/login/{user}/{password}``."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from api_gateway.access.body import read_body
from api_gateway.access.gone import while_there
from api_gateway.access.login import Logins, address_of, make_token, read_authorization
from api_gateway.answer import rest_error, rest_reply
from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb.reply import as_answer
from api_gateway.session import Session
from api_gateway.statements.execute import Executor
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.timeline.calendar import zone

DIALECTS = ("tdengine", "iotdb")
BODY = {
    "requestBody": {
        "required": True,
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "SHOW DATABASES"}},
    }
}
"""What OpenAPI says about the body, which is read without FastAPI."""


def _json(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def rest_router(
    executor: Executor, iotdb: IotdbExecutor, logins: Logins, timezone: str, body_bytes: int
) -> APIRouter:
    """The routes. ``timezone``: of sessions whose request has no ``tz``; ``body_bytes``: the longest SQL."""
    router = APIRouter(tags=["TDengine REST"])
    protocol = _Protocol(executor, iotdb, logins, timezone, body_bytes)

    @router.post("/rest/sql", openapi_extra=BODY)
    async def sql(
        request: Request,
        tz: Annotated[str, Query(description="Time zone of the times in the SQL and in the reply.")] = "",
        req_id: Annotated[str, Query(description="Number of the request, for the logs.")] = "",
        row_with_meta: Annotated[
            bool, Query(description="Return each row as an object whose fields are the columns.")
        ] = False,
        dialect: Annotated[str, Query(description="The SQL's dialect: tdengine or iotdb.")] = "tdengine",
    ) -> Response:
        """Run the SQL text in the body. An SQL error is HTTP 200 with ``code`` other than 0 and ``desc``."""
        return await protocol.answer(request, None, tz, req_id, row_with_meta, dialect)

    @router.post("/rest/sql/{db}", openapi_extra=BODY)
    async def sql_in(
        request: Request, db: str, tz: str = "", req_id: str = "", row_with_meta: bool = False
    ) -> Response:
        """The same, with ``db`` as the database of names without one."""
        return await protocol.answer(request, db, tz, req_id, row_with_meta)

    @router.get("/rest/login/{user}/{password}")
    async def login(request: Request, user: str, password: str) -> Response:
        """A token for ``Authorization: Taosd <token>``, in ``desc``."""
        try:
            await run_in_threadpool(logins.check, user, password, address_of(request))
            return _json({"code": 0, "desc": make_token(user, password)})
        except MillraceError as error:
            return _json(rest_error(error), error.code.value.http)

    return router


class _Protocol:
    def __init__(
        self, executor: Executor, iotdb: IotdbExecutor, logins: Logins, timezone: str,
        body_bytes: int,
    ) -> None:  # fmt: skip
        self._executor = executor
        self._iotdb = iotdb
        self._logins = logins
        self._timezone = timezone
        self._body_bytes = body_bytes

    async def answer(
        self, request: Request, db: str | None, tz: str, req_id: str, names: bool, dialect: str = "tdengine"
    ) -> Response:
        header = request.headers.get("authorization")
        try:
            # no body is read from an unknown caller
            name, password = read_authorization(header)
            user = await run_in_threadpool(self._logins.check, name, password, address_of(request))
            session = self._session(user.name, db, tz, req_id)
            sql = _text(await read_body(request, self._body_bytes))
            if dialect not in DIALECTS:
                raise MillraceError(
                    ErrorCode.INVALID_VALUE,
                    f"unknown dialect {dialect!r}: must be one of {', '.join(DIALECTS)}",
                )
        except MillraceError as error:
            return _json(rest_error(error), error.code.value.http)
        return await while_there(
            request,
            lambda: self._answer(session, sql, names, dialect),
            lambda: self._executor.abandon(session),
        )

    def _answer(self, session: Session, sql: str, names: bool, dialect: str) -> Response:
        try:
            if dialect == "iotdb":
                answer = as_answer(self._iotdb.execute(session, sql))
            else:
                answer = self._executor.execute(session, sql)
            return _json(rest_reply(answer, session.timezone, with_names=names))
        except MillraceError as error:
            return _json(rest_error(error))

    def _session(self, user: str, db: str | None, tz: str, req_id: str) -> Session:
        """:raises MillraceError: INVALID_VALUE for an unknown time zone, or if ``req_id`` is not a number."""
        timezone = tz or self._timezone
        zone(timezone)
        if req_id and not req_id.isdecimal():
            raise MillraceError(ErrorCode.INVALID_VALUE, f"req_id must be a number, not {req_id!r}")
        return Session(user, db, timezone, time.time_ns())


def _text(body: bytes) -> str:
    """:raises MillraceError: SYNTAX if there is no SQL."""
    try:
        sql = body.decode()
    except UnicodeDecodeError as error:
        raise MillraceError(ErrorCode.SYNTAX, f"the SQL is not valid UTF-8: {error}") from error
    if not sql.strip():
        raise MillraceError(ErrorCode.SYNTAX, "the request body contains no SQL")
    return sql
