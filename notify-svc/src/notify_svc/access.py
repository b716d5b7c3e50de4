"""Who may subscribe to what: the gateway decides."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import aiohttp
from cachetools import TTLCache

from millrace_core.errors import ErrorCode, MillraceError

Admit = Callable[[str, str], Awaitable[None]]
"""Takes an Authorization header and a stream's full name. A MillraceError says why the stream may not be
read: AUTHENTICATION, PERMISSION, UNKNOWN_STREAM, or UNAVAILABLE if that cannot be found out now."""

_SCHEMES = ("basic ", "bearer ", "taosd ")
_DENIED = {401: ErrorCode.AUTHENTICATION, 403: ErrorCode.PERMISSION, 404: ErrorCode.UNKNOWN_STREAM}
_REMEMBERED = 10_000
_ANSWER = aiohttp.ClientTimeout(total=10)


class GatewayAccess:
    """Asks the gateway, with the caller's own header; the gateway answers from its catalog alone. A yes is
    remembered for some ``seconds`` (by a hash of header and name), a no never is."""

    def __init__(self, url: str, session: aiohttp.ClientSession, seconds: float) -> None:
        self._url = url
        self._session = session
        self._good: TTLCache[bytes, None] = TTLCache(_REMEMBERED, seconds, time.monotonic)

    async def __call__(self, header: str, stream: str) -> None:
        if not header.lower().startswith(_SCHEMES):
            raise MillraceError(
                ErrorCode.AUTHENTICATION,
                "no credentials: send the header Authorization with Basic credentials, or with Bearer and "
                "a login token",
            )
        known = hashlib.sha256(f"{header}\n{stream}".encode()).digest()
        if known in self._good:
            return
        await self._ask(header, stream)
        self._good[known] = None

    async def _ask(self, header: str, stream: str) -> None:
        try:
            async with self._session.get(
                f"{self._url}/api/v1/streams/{quote(stream, safe='')}/subscription",
                headers={"Authorization": header},
                timeout=_ANSWER,
                allow_redirects=False,
            ) as answer:
                status, body = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise MillraceError(ErrorCode.UNAVAILABLE, "the gateway cannot be reached") from error
        if code := _DENIED.get(status):
            raise MillraceError(code, _message(body) or f"the gateway answered with status {status}")
        if status not in (200, 204):
            raise MillraceError(ErrorCode.UNAVAILABLE, f"the gateway answered with status {status}")


def _message(body: bytes) -> str:
    """The ``message`` of the gateway's JSON answer; empty without one."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return str(found.get("message", "")) if isinstance(found, dict) else ""
