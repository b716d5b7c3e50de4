"""What a service shows of itself: whether it is well, and its metrics."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from millrace_core.errors import MillraceError


@dataclass(frozen=True, slots=True)
class Health:
    """``ready``: the service can do its work now. ``detail``: what that rests on, for people."""

    ready: bool
    detail: dict[str, object] = field(default_factory=dict)


def instance() -> str:
    """This process, ``host:pid``, for people who look for it."""
    return f"{socket.gethostname()}:{os.getpid()}"


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def service_app(
    name: str,
    health: Callable[[], Health],
    lifespan: Lifespan | None = None,
    registry: CollectorRegistry = REGISTRY,
) -> FastAPI:
    """An app with ``/healthz`` (200 or 503, ``{"service", "ready", "detail"}``) and ``/metrics``.

    A MillraceError that leaves a handler becomes its ``to_wire()`` under the code's HTTP status.
    """
    app = FastAPI(title=name, lifespan=lifespan)

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        found = health()
        body = {"service": name, "ready": found.ready, "detail": found.detail}
        return JSONResponse(body, 200 if found.ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(MillraceError)
    async def error(_request: Request, raised: MillraceError) -> JSONResponse:
        return JSONResponse(raised.to_wire(), raised.code.value.http)

    return app
