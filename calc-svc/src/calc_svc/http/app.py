"""The HTTP side: ``POST /query``, ``POST /describe``, ``POST /verify``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec
from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from calc_svc.jobs.compute import Calculator, ipc_stream, typed_result
from calc_svc.jobs.verify import VerifyRequest, verify
from calc_svc.store.tables import TableStore
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import read_trigger
from millrace_service import Health, ServiceToken, service_app

WAIT_SECONDS = 30.0
Asked = TypeVar("Asked")
ARROW = "application/vnd.apache.arrow.stream"


class QueryRequest(msgspec.Struct):
    """``catalog`` and ``wal``: what the answer must have seen, as first offsets not included; ``user``: who
    asks."""

    sql: str
    db: str | None = None
    timezone: str = "UTC"
    user: str | None = None
    catalog: int = 0
    wal: dict[str, dict[int, int]] = {}


class DescribeRequest(msgspec.Struct):
    spec: StreamSpec
    catalog: int = 0


def calc_app(
    calculator: Calculator, store: TableStore, health: Callable[[], Health],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]], token: ServiceToken,
) -> FastAPI:  # fmt: skip
    """The service's app. Who shows the ``token`` is believed who asks."""
    app = service_app("calc-svc", health, lifespan, token=token, documented=False)
    inner = [Depends(token.required)]

    @app.post("/query", dependencies=inner)
    async def query(request: Request) -> Response:
        """A SELECT's rows, an Arrow IPC stream. Fields carry ``millrace.type`` and ``millrace.precision``."""
        asked = _decode(await request.body(), QueryRequest)
        return Response(await run_in_threadpool(_query, calculator, store, asked), media_type=ARROW)

    @app.post("/describe", dependencies=inner)
    async def describe(request: Request) -> Response:
        """A stream's result columns: ``{"columns": [{"name", "type": {"name", "length"}}]}``."""
        asked = _decode(await request.body(), DescribeRequest)
        return Response(
            await run_in_threadpool(_describe, calculator, store, asked), media_type="application/json"
        )

    @app.post("/verify", dependencies=inner)
    async def verify_stream(request: Request) -> Response:
        """VERIFY STREAM: the output rows that differ, as those of ``/query``."""
        asked = _decode(await request.body(), VerifyRequest)
        return Response(await run_in_threadpool(_verify, calculator, store, asked), media_type=ARROW)

    return app


def _decode(body: bytes, kind: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(body, type=kind, dec_hook=read_trigger)
    except msgspec.DecodeError as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"request: {error}") from error


def _query(calculator: Calculator, store: TableStore, asked: QueryRequest) -> bytes:
    store.wait(asked.catalog, asked.wal, WAIT_SECONDS)
    now = time.time_ns()
    plan, result = calculator.query(asked.sql, asked.db, asked.timezone, now, WAIT_SECONDS, asked.user)
    return ipc_stream(typed_result(plan, result))


def _verify(calculator: Calculator, store: TableStore, asked: VerifyRequest) -> bytes:
    return ipc_stream(verify(calculator, store.catalog, store, asked))


def _describe(calculator: Calculator, store: TableStore, asked: DescribeRequest) -> bytes:
    store.wait(asked.catalog, {}, WAIT_SECONDS)
    columns = calculator.describe(asked.spec)
    return msgspec.json.encode({"columns": columns})
