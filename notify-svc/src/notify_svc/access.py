"""Who may subscribe: whoever the gateway lets in."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable

import aiohttp

from millrace_core.errors import ErrorCode, MillraceError

Authenticate = Callable[[str], Awaitable[bool]]
"""Whether an Authorization header is good. MillraceError UNAVAILABLE: it cannot be told now."""

_DENIED = (ErrorCode.AUTHENTICATION.value.number, ErrorCode.PERMISSION.value.number)
_GOOD_FOR = 60.0
_REMEMBERED = 10_000
_ANSWER = aiohttp.ClientTimeout(total=10)


class GatewayAccess:
    """Asks the gateway with the same header, by a statement that it answers from its catalog alone. Remembers
    a yes for a minute (by the header's hash), never a no."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self._good: dict[bytes, float] = {}

    async def __call__(self, header: str) -> bool:
        if not header.lower().startswith(("basic ", "bearer ")):
            return False
        known = hashlib.sha256(header.encode()).digest()
        now = time.monotonic()
        if self._good.get(known, 0.0) > now:
            return True
        if not await self._ask(header):
            return False
        if len(self._good) >= _REMEMBERED:
            self._good = {key: until for key, until in self._good.items() if until > now}
        if len(self._good) < _REMEMBERED:
            self._good[known] = now + _GOOD_FOR
        return True

    async def _ask(self, header: str) -> bool:
        try:
            async with self._session.post(
                f"{self._url}/rest/sql",
                data=b"show databases",
                headers={"Authorization": header},
                timeout=_ANSWER,
            ) as answer:
                status, body = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise MillraceError(ErrorCode.UNAVAILABLE, "the gateway does not answer") from error
        if status in (401, 403):
            return False
        code = _code(body)
        if code in _DENIED:
            return False
        if status != 200 or code != 0:
            raise MillraceError(ErrorCode.UNAVAILABLE, f"the gateway answered with status {status}")
        return True


def _code(body: bytes) -> int | None:
    """The ``code`` of the gateway's JSON answer, without the high half that some versions set."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    code = found.get("code") if isinstance(found, dict) else None
    return code & 0xFFFF if isinstance(code, int) else None
