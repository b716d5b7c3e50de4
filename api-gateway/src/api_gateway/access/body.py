"""How much of a request's body is read, once the caller is known."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.types import Message

from api_gateway.access.login import Logins, address_of, read_authorization
from millrace_core.errors import ErrorCode, MillraceError


def known_first(logins: Logins, most: int) -> type[APIRoute]:
    """Routes that read no body from an unknown caller, and no body longer than ``most`` bytes. FastAPI by
    itself would read the body before it resolves a route's dependencies."""

    class KnownFirst(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def first(request: Request) -> Response:
                name, password = read_authorization(request.headers.get("authorization"))
                await run_in_threadpool(logins.check, name, password, address_of(request))
                body = await read_body(request, most)

                async def again() -> Message:
                    return {"type": "http.request", "body": body, "more_body": False}

                return await handle(Request(request.scope, again))

            return first

    return KnownFirst


async def read_body(request: Request, most: int) -> bytes:
    """:raises MillraceError: TOO_LARGE as soon as the body is known to be too long."""
    told = request.headers.get("content-length", "")
    size, parts = int(told) if told.isdecimal() else 0, []
    if size <= most:
        size = 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                break
    if size > most:
        raise MillraceError(
            ErrorCode.TOO_LARGE, f"the request body is longer than {most} bytes (MILLRACE_BODY_BYTES)"
        )
    return b"".join(parts)
