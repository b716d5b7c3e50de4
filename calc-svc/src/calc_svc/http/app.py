"""The HTTP side: ``POST /query``, ``POST /describe``, ``POST /verify``; ``GET /queries``, ``POST /kill``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from calc_svc.jobs.compute import Calculator, typed_result
from calc_svc.jobs.verify import VerifyRequest, verify
from calc_svc.queries.messages import ipc_stream
from calc_svc.queries.running import Query, RunningQueries
from calc_svc.store.tables import TableStore
from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import read_trigger
from millrace_service import Health, ServiceToken
from millrace_service.web import needs, service_app

WAIT_SECONDS = 30.0
QUERY_SECONDS = 60.0
THREADS = 64
"""How many user requests are handled at the same time; most of them wait for a lane."""
Asked = TypeVar("Asked")
ARROW = "application/vnd.apache.arrow.stream"


class QueryRequest(msgspec.Struct):
    """``catalog`` and ``wal``: what the answer must have seen, as exclusive end offsets; ``user``: who asks;
    ``id``: the name under which the query can be killed; ``seconds``: how long it may take."""

    sql: str
    id: str = ""
    seconds: float = QUERY_SECONDS
    db: str | None = None
    timezone: str = "UTC"
    user: str | None = None
    catalog: int = 0
    wal: dict[str, dict[int, int]] = {}


class KillRequest(msgspec.Struct):
    """``user``: whose query it must be (None: anybody's); ``by``: who has it killed."""

    id: str
    by: str
    user: str | None = None


class DescribeRequest(msgspec.Struct):
    """``catalog``: what the answer must have seen; ``user``: who asks."""

    spec: StreamSpec
    catalog: int = 0
    user: str | None = None


def calc_app(
    calculator: Calculator, store: TableStore, health: Callable[[], Health],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]], token: ServiceToken,
) -> FastAPI:  # fmt: skip
    """The service's app. A caller that shows the ``token`` is trusted to say which user asks."""
    app = service_app("calc-svc", health, lifespan, token=token, documented=False)
    inner = [Depends(needs(token))]
    users = _Users()

    @app.post("/query", dependencies=inner)
    async def query(request: Request) -> Response:
        """A SELECT's rows, an Arrow IPC stream. Fields carry ``millrace.type`` and ``millrace.precision``."""
        asked = _decode(await request.body(), QueryRequest)
        one = Query(asked.sql, asked.seconds, asked.id, asked.user)
        return await users.answer(request, one, lambda: _query(calculator, store, asked, one))

    @app.get("/queries", dependencies=inner)
    async def queries() -> Response:
        """The users' queries that are running, as :class:`calc_svc.queries.running.Shown`."""
        return Response(msgspec.json.encode(users.running.shown()), media_type="application/json")

    @app.post("/kill", status_code=204, dependencies=inner)
    async def kill(request: Request) -> Response:
        """End a query."""
        asked = _decode(await request.body(), KillRequest)
        users.running.kill(asked.id, asked.user, asked.by)
        return Response(status_code=204)

    @app.post("/describe", dependencies=inner)
    async def describe(request: Request) -> Response:
        """A stream's result columns: ``{"columns": [{"name", "type": {"name", "length"}}]}``."""
        asked = _decode(await request.body(), DescribeRequest)
        return Response(
            await run_in_threadpool(_describe, calculator, store, asked), media_type="application/json"
        )

    @app.post("/verify", dependencies=inner)
    async def verify_stream(request: Request) -> Response:
        """VERIFY STREAM: the output rows that differ, in the format of ``/query``."""
        asked = _decode(await request.body(), VerifyRequest)
        one = Query(asked.sql, asked.seconds, asked.id, asked.user)
        return await users.answer(request, one, lambda: _verify(calculator, store, asked, one))

    return app


def _decode(body: bytes, kind: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(body, type=kind, dec_hook=read_trigger)
    except msgspec.DecodeError as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"request: {error}") from error


class _Users:
    """Runs what users ask in threads of its own, so that queries never take the threads for definitions."""

    def __init__(self) -> None:
        self.running = RunningQueries()
        self._threads: CapacityLimiter | None = None

    async def answer(self, request: Request, query: Query, work: Callable[[], bytes]) -> Response:
        """Answer with rows. A query whose client goes away is ended."""
        if self._threads is None:  # it can only be made once there is an event loop
            self._threads = CapacityLimiter(THREADS)
        with self.running.run(query):
            watching = asyncio.create_task(self._watch(request, query))
            try:
                found = await to_thread.run_sync(work, limiter=self._threads)
            finally:
                watching.cancel()
        return Response(found, media_type=ARROW)

    async def _watch(self, request: Request, query: Query) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        query.end(PlanError(ErrorCode.QUERY_KILLED, "the client has disconnected"))


def _query(calculator: Calculator, store: TableStore, asked: QueryRequest, one: Query) -> bytes:
    store.wait(asked.catalog, asked.wal, min(WAIT_SECONDS, one.left))
    plan, result = calculator.query(one, asked.db, asked.timezone, time.time_ns())
    return ipc_stream(typed_result(plan, result))


def _verify(calculator: Calculator, store: TableStore, asked: VerifyRequest, one: Query) -> bytes:
    return ipc_stream(verify(calculator, store.catalog, store, asked, one))


def _describe(calculator: Calculator, store: TableStore, asked: DescribeRequest) -> bytes:
    store.wait(asked.catalog, {}, WAIT_SECONDS)
    one = Query(asked.spec.query or "", WAIT_SECONDS, user=asked.user)
    columns = calculator.planner.columns(one, asked.spec)
    return msgspec.json.encode({"columns": columns})
