"""IoTDB's REST v2: ``/ping``, ``/rest/v2/query``, ``/rest/v2/nonQuery``, ``/rest/v2/insertTablet``,
``/rest/v2/insertRecords``, on a port of its own.

Every answer, except to a wrong login, is HTTP 200 with IoTDB's status in the body.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from api_gateway.access.body import read_body
from api_gateway.access.gone import while_there
from api_gateway.access.login import address_of, read_authorization
from api_gateway.firing import Firing
from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.iotdb.write import Tablet
from api_gateway.session import Session
from millrace_core.dialect.iotdb import IotdbError, Status, parse, status_of
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.parse_schema import TYPES
from millrace_core.dialect.iotdb.paths import TIMES
from millrace_core.dialect.iotdb.select.assemble import Result
from millrace_core.dialect.iotdb.values import shortest
from millrace_core.errors import MillraceError

ROW_LIMIT = 10_000
"""The most rows of an answer if the request names no limit: IoTDB's rest_query_default_row_size_limit."""
SUCCESS = {"code": Status.SUCCESS.number, "message": "SUCCESS_STATUS"}
_READERS = (s.Select, s.Show, s.Count, s.ShowTriggers, s.ShowCqs, s.DiagnoseCq, s.VerifyCq)


class _Query(msgspec.Struct):
    sql: str
    row_limit: int | None = None


class _NonQuery(msgspec.Struct):
    sql: str


class _Tablet(msgspec.Struct):
    """``values``: by column."""

    timestamps: list[int]
    measurements: list[str]
    data_types: list[str]
    values: list[list[Any]]
    device: str
    is_aligned: bool = False


class _Records(msgspec.Struct):
    """One row per device: ``values_list`` goes with ``measurements_list``, row by row."""

    timestamps: list[int]
    measurements_list: list[list[str]]
    data_types_list: list[list[str]]
    values_list: list[list[Any]]
    devices: list[str]
    is_aligned: bool = False


def _json(body: object, http: int = 200) -> Response:
    return Response(msgspec.json.encode(body), http, media_type="application/json")


def failed(error: MillraceError, http: int = 200) -> Response:
    return _json({"code": status_of(error).number, "message": str(error)}, http)


def iotdb_router(executor: IotdbExecutor, logins: IotdbLogins, timezone: str, body_bytes: int) -> APIRouter:
    """The routes. ``body_bytes``: how long a body may be."""
    router = APIRouter(tags=["IoTDB REST"])
    door = _Door(executor, logins, timezone)

    @router.get("/ping")
    async def ping() -> Response:
        return _json(SUCCESS)

    def route(path: str, answer: Callable[[Session, bytes], object]) -> None:
        @router.post(path)
        async def handle(request: Request) -> Response:
            try:
                # no body is read from an unknown caller
                session = await run_in_threadpool(door.session, request)
            except MillraceError as error:
                return failed(error, 401)
            try:
                body = await read_body(request, body_bytes)
            except MillraceError as error:
                return failed(error)
            return await while_there(
                request, lambda: door.answer(session, body, answer), lambda: door.abandon(session)
            )

    route("/rest/v2/query", door.query)
    route("/rest/v2/nonQuery", door.non_query)
    route("/rest/v2/insertTablet", door.insert_tablet)
    route("/rest/v2/insertRecords", door.insert_records)
    return router


class _Door:
    def __init__(self, executor: IotdbExecutor, logins: IotdbLogins, timezone: str) -> None:
        self._executor, self._logins, self._timezone = executor, logins, timezone

    def session(self, request: Request) -> Session:
        """:raises MillraceError: for an unknown caller."""
        user = self._user(request.headers.get("authorization"), address_of(request))
        return Session(user, None, self._timezone, time.time_ns())

    def abandon(self, session: Session) -> None:
        """The client has gone away."""
        self._executor.abandon(session)

    def answer(self, session: Session, body: bytes, work: Callable[[Session, bytes], object]) -> Response:
        try:
            return _json(work(session, body))
        except MillraceError as error:
            return failed(error)

    def _user(self, header: str | None, address: str) -> str:
        if not header:
            raise IotdbError(Status.NO_LOGIN, "Username or password is missing: send Authorization: Basic")
        name, password = read_authorization(header)
        return self._logins.check(name, password, address).name

    # -- statements ------------------------------------------------------------------------------------------

    def query(self, session: Session, body: bytes) -> object:
        asked = _read(body, _Query)
        limit = ROW_LIMIT if asked.row_limit is None else asked.row_limit
        if limit <= 0:
            raise IotdbError(Status.ILLEGAL_PARAMETER, f"row_limit must be at least 1, not {limit}")
        statement = parse(asked.sql)
        if not isinstance(statement, _READERS):
            raise unsupported("this statement makes changes: send it to /rest/v2/nonQuery")
        if isinstance(statement, s.Select) and statement.into:
            raise IotdbError(
                Status.UNSUPPORTED_STATEMENT,
                "SELECT … INTO writes, but /rest/v2/query only reads: send it to /rest/v2/nonQuery",
            )
        reply: object
        if isinstance(statement, s.Select):
            reply = self._executor.query(session, statement, limit)
        else:
            reply = self._executor.perform(session, statement)
        if isinstance(reply, Listing):
            _check_limit(len(reply.rows), limit)
            values = [list(column) for column in zip(*reply.rows, strict=True)]
            names = list(reply.names)
            return {"expressions": None, "column_names": names, "timestamps": None,
                    "values": values or [[] for _ in names]}  # fmt: skip
        assert isinstance(reply, Result)
        _check_limit(reply.rows, limit)
        return _data(reply)

    def non_query(self, session: Session, body: bytes) -> object:
        statement = parse(_read(body, _NonQuery).sql)
        if isinstance(statement, _READERS) and not (isinstance(statement, s.Select) and statement.into):
            raise unsupported("this statement only reads: send it to /rest/v2/query")
        reply = self._executor.perform(session, statement)
        return _success(reply.hint if isinstance(reply, Done | Listing) else "")

    # -- rows ------------------------------------------------------------------------------------------------

    def insert_tablet(self, session: Session, body: bytes) -> object:
        asked = _read(body, _Tablet)
        count = len(asked.timestamps)
        if not (len(asked.measurements) == len(asked.data_types) == len(asked.values)) or any(
            len(column) != count for column in asked.values
        ):
            raise _uneven()
        tablet = Tablet(
            _device(asked.device), asked.timestamps, _distinct(asked.measurements, asked.values),
            dict(zip(asked.measurements, map(_type, asked.data_types), strict=True)), asked.is_aligned,
        )  # fmt: skip
        firing = Firing()
        self._executor.write(session, [tablet], firing)
        return _success("; ".join(firing.notes))

    def insert_records(self, session: Session, body: bytes) -> object:
        asked = _read(body, _Records)
        lists = (asked.measurements_list, asked.data_types_list, asked.values_list, asked.devices)
        if any(len(one) != len(asked.timestamps) for one in lists):
            raise _uneven()
        tablets = []
        rows = zip(asked.timestamps, *lists, strict=True)
        for at, measurements, types, values, device in rows:
            if not (len(measurements) == len(types) == len(values)):
                raise _uneven()
            columns = _distinct(measurements, [[value] for value in values])
            kinds = dict(zip(measurements, map(_type, types), strict=True))
            tablets.append(Tablet(_device(device), [at], columns, kinds, asked.is_aligned))
        firing = Firing()
        self._executor.write(session, tablets, firing)
        return _success("; ".join(firing.notes))


def _success(hint: str) -> object:
    """The request is done; ``hint``: what triggers have failed at."""
    return SUCCESS | {"message": f"{SUCCESS['message']}: {hint}"} if hint else SUCCESS


def _data(reply: Result) -> dict[str, object]:
    """Rows by column. With ALIGN BY DEVICE, Device is the first of the expressions. Rows without a time are
    at 0, as in IoTDB's guide."""
    names = list(reply.names)
    values = [
        list(map(shortest, column)) if type_ == "FLOAT" else column
        for type_, column in zip(reply.types, reply.values, strict=True)
    ]
    if reply.devices is not None:
        names, values = ["Device", *names], [list(reply.devices), *values]
    times = [0] * reply.rows if reply.times is None else reply.times
    return {"expressions": names, "column_names": None, "timestamps": times, "values": values}


def _check_limit(rows: int, limit: int) -> None:
    if rows > limit:
        raise IotdbError(
            Status.ROW_LIMIT,
            f"Dataset row size exceeded the given max row size ({limit}): use LIMIT, or row_limit",
        )


def _read(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IotdbError(Status.ILLEGAL_PARAMETER, f"the request body is not valid: {error}") from None


def _uneven() -> IotdbError:
    return IotdbError(
        Status.ILLEGAL_PARAMETER,
        "the numbers of timestamps, measurements, data types and values do not match",
    )


def _device(text: str) -> tuple[str, ...]:
    cursor = Cursor(text)
    found = cursor.full_path("a device")
    cursor.finish()
    if len(found.nodes) < 2:
        raise IotdbError(Status.ILLEGAL_PATH, "root is not a device")
    return found.names


def _distinct(measurements: list[str], values: list[list[Any]]) -> dict[str, list[object]]:
    for name in measurements:
        if not name or "\0" in name or name.lower() in TIMES:
            raise IotdbError(Status.ILLEGAL_PARAMETER, f"{name!r} is not a valid name for a measurement")
    if len(set(measurements)) < len(measurements):
        raise IotdbError(Status.ILLEGAL_PARAMETER, "a measurement is given twice")
    return dict(zip(measurements, values, strict=True))


def _type(name: str) -> str:
    upper = name.upper()
    if upper not in TYPES:
        raise IotdbError(
            Status.ILLEGAL_PARAMETER, f"unknown data type {name}: must be one of {', '.join(TYPES)}"
        )
    return upper
