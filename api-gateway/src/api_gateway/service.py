"""api-gateway put together: starting and stopping in order, health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from structlog.typing import FilteringBoundLogger

from api_gateway.access.login import DEFAULT_PASSWORD, Logins, new_user
from api_gateway.answer import rest_error
from api_gateway.calc_client import CalcClient
from api_gateway.catalog.topics import WalTopics
from api_gateway.catalog.writer import CatalogWriter
from api_gateway.context import Context
from api_gateway.insert_triggers.registry import InsertTriggers
from api_gateway.iotdb.cq import CqRunner
from api_gateway.iotdb.door import iotdb_router
from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb_rpc.server import RpcServer, talk
from api_gateway.protocols.streams_api import resource_router
from api_gateway.protocols.tdengine_rest import rest_router
from api_gateway.running import Running
from api_gateway.settings import GatewaySettings
from api_gateway.statements.execute import Executor
from api_gateway.upkeep.recovery import settle
from api_gateway.upkeep.registrations import Registrar
from api_gateway.upkeep.stalls import Stalls
from api_gateway.upkeep.trimming import Trimmer
from api_gateway.watching.status_board import StatusBoard, StatusReader
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import TOPICS, wal_topic
from millrace_service import Health, Lives
from millrace_service.web import service_app
from millrace_wal import KafkaLog, Log

ROOT = "root"
STOP_SECONDS = 10.0


class Gateway:
    """Everything behind the routes. :meth:`start` reads the catalog; nothing can be asked before that."""

    def __init__(
        self, log: Log, settings: GatewaySettings, logger: FilteringBoundLogger,
        calc: httpx.BaseTransport | None = None, others: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        """``calc``: what answers in place of calc-svc; ``others``: what answers in place of all services when
        they are asked for their health."""
        board, self.token = StatusBoard(), settings.token
        self.context = Context(
            log, CatalogWriter(log), board,
            WalTopics(log, board, settings.accept_seconds, settings.rest_seconds),
            CalcClient(
                settings.calc_url, settings.query_seconds, self.token, calc, settings.trust,
                settings.user_queries,
            ),
            settings, logger,
        )  # fmt: skip
        self._triggers = InsertTriggers(self.context)
        self.context.listener = self._triggers
        running = Running(self.context, settle)
        self.executor = Executor(self.context, running)
        self.iotdb = IotdbExecutor(self.context, running)
        self.logins = Logins(self.context.catalog.users)
        self._lives = Lives(logger, settings.stall_seconds)
        self._stalls = Stalls(self.context, self._lives.stalls, self.token, others)
        self._ready = False

    def start(self) -> None:
        """:raises MillraceError: if the broker cannot be reached, or the catalog cannot be read."""
        context, log = self.context, self.context.log
        log.ensure_topics(TOPICS)
        context.writer.load()
        if not context.catalog.users:
            password = context.settings.first_password
            context.writer.write([new_user(ROOT, password, superuser=True)])
        self._check_first_password()
        statuses = StatusReader(log, context.board)
        statuses.catch_up()
        settle(context)
        context.topics.adopt(list(context.catalog.tables))
        there = set(log.topics())
        for db, name in list(context.catalog.tables):
            if (topic := wal_topic(db, name)) in there:
                context.written.start(topic, log.end_offsets(topic))
        context.continuous.load(log, context.catalog)
        self._triggers.start()
        registrar = Registrar(log, context)
        self._lives.add(statuses, statuses.look)
        self._lives.add(registrar, registrar.look)
        self._lives.add(self._stalls)
        self._lives.add(Trimmer(log, context))
        for number in range(context.settings.cq_threads):
            runner = CqRunner(context, self.iotdb.run_continuous, number)
            self._lives.add(runner, runner.look)
        self._lives.start()
        self._ready = True
        context.logger.info(
            "ready", tables=len(context.catalog.tables), children=len(context.catalog.children),
            streams=len(context.catalog.streams),
        )  # fmt: skip

    def _check_first_password(self) -> None:
        """:raises MillraceError: NOT_ALLOWED if root has its well-known password and other machines can reach
        the service."""
        settings = self.context.settings
        if not self.logins.holds(ROOT, DEFAULT_PASSWORD):
            return
        if not settings.local and not settings.allow_default_password:
            raise MillraceError(
                ErrorCode.NOT_ALLOWED,
                f"root still has its well-known password, and the service listens on {settings.host}: set "
                "MILLRACE_ROOT_PASSWORD before the very first start, or start on loopback and run ALTER "
                "USER root PASS '…'; MILLRACE_ALLOW_DEFAULT_PASSWORD=1 allows it anyway",
            )
        self.context.logger.warning("root still has its well-known password: run ALTER USER root PASS '…'")

    def stop(self) -> None:
        self._lives.stop(STOP_SECONDS)
        self._triggers.stop()
        self._stalls.close()
        self.context.calc.close()
        self.context.log.close()
        self.context.logger.info("stopped")

    def health(self) -> Health:
        detail: dict[str, object] = {
            "catalog": self.context.writer.position, "applied": self.context.board.applied,
        }  # fmt: skip
        return self._lives.health(self._ready, detail)


def gateway_app(gateway: Gateway) -> FastAPI:
    """The app: REST, resource API, ``/docs``, ``/healthz``, ``/metrics``."""

    settings = gateway.context.settings
    known = IotdbLogins(gateway.logins, settings.first_password)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = gateway.context.settings.threads
        await anyio.to_thread.run_sync(gateway.start)
        try:
            if rpc is not None:
                await rpc.start()
            yield
        finally:
            if rpc is not None:
                await rpc.stop()
            await anyio.to_thread.run_sync(gateway.stop)

    rpc = _rpc_server(gateway, known)
    app = service_app("api-gateway", gateway.health, lifespan, token=gateway.token)
    app.include_router(
        rest_router(gateway.executor, gateway.iotdb, gateway.logins, settings.timezone, settings.body_bytes)
    )
    app.include_router(iotdb_router(gateway.iotdb, known, settings.timezone, settings.body_bytes))
    app.include_router(resource_router(gateway.context, gateway.executor, gateway.logins))

    @app.exception_handler(RequestValidationError)
    async def refused(request: Request, raised: RequestValidationError) -> JSONResponse:
        error = MillraceError(ErrorCode.INVALID_VALUE, "; ".join(map(_fault, raised.errors())))
        if request.url.path.startswith("/rest/"):
            return JSONResponse(rest_error(error), error.code.value.http)
        return JSONResponse(error.to_wire(), 422)

    return app


def _rpc_server(gateway: Gateway, known: IotdbLogins) -> RpcServer | None:
    """IoTDB's RPC, if the settings ask for it;
    :raises MillraceError: if it is not installed."""
    settings = gateway.context.settings
    if not settings.iotdb_rpc_port:
        return None
    return RpcServer(
        talk(gateway.iotdb), known, gateway.context.logger, settings.host, settings.iotdb_rpc_port,
        settings.timezone, settings.body_bytes, settings.tls_pair,
    )  # fmt: skip


def _fault(found: dict[str, Any]) -> str:
    """What is wrong with one part of a request, and where, as in ``name: Input should be a valid string``."""
    place = ".".join(str(part) for part in found["loc"][1:])
    return ": ".join(part for part in (place, found["msg"].removeprefix("Value error, ")) if part)


def build(settings: GatewaySettings, logger: FilteringBoundLogger) -> FastAPI:
    """The app on the broker that the settings name."""
    log = KafkaLog(settings.broker, "api-gateway", settings.kafka.librdkafka)
    return gateway_app(Gateway(log, settings, logger))
