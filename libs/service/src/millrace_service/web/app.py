"""What a service shows about itself: its health and its metrics."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from millrace_core.errors import MillraceError
from millrace_service.access.token import ServiceToken
from millrace_service.health import Health

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def needs(token: ServiceToken) -> Callable[[Request], None]:
    """A dependency of routes that are only for services of the same stack. It raises a MillraceError,
    AUTHENTICATION, if a request does not show the token."""

    def check(request: Request) -> None:
        token.require(request.headers)

    return check


def service_app(
    name: str,
    health: Callable[[], Health],
    lifespan: Lifespan | None = None,
    registry: CollectorRegistry = REGISTRY,
    token: ServiceToken | None = None,
    documented: bool = True,
) -> FastAPI:
    """An app with ``/healthz`` (200 or 503, ``{"service", "ready"}``) and ``/metrics``. ``/metrics`` and the
    ``detail`` of ``/healthz`` may name tables and streams, so only those who present the ``token`` see them,
    and nobody does if there is none. ``documented``: users may use the app, so it describes itself.

    A MillraceError that leaves a handler becomes its ``to_wire()`` under the code's HTTP status.
    """
    app = FastAPI(title=name, lifespan=lifespan, openapi_url="/openapi.json" if documented else None)
    known = token or ServiceToken(secrets.token_hex())

    @app.get("/healthz")
    async def healthz(request: Request) -> JSONResponse:
        found = health()
        body: dict[str, object] = {"service": name, "ready": found.ready}
        if known.is_shown(request.headers):
            body["detail"] = found.detail
        return JSONResponse(body, 200 if found.ready else 503)

    @app.get("/metrics", dependencies=[Depends(needs(known))])
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(MillraceError)
    async def error(_request: Request, raised: MillraceError) -> JSONResponse:
        return JSONResponse(raised.to_wire(), raised.code.value.http)

    return app
