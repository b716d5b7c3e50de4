"""SQL over the gateway's REST endpoint, as any client of it would."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp

from millrace.login import find_login
from millrace.sql_client import find_trust
from millrace_conformance.case import Dialect, Login
from millrace_conformance.values import Answer
from millrace_core.errors import ErrorCode, Fault

TIMEOUT = 120.0


class Refused(Exception):
    """The gateway refused the statement; ``str()`` is its message."""


class Broken(Exception):
    """There is no answer, or one that is neither a result nor a refusal: the gateway failed."""


_OURS = {code.value.number for code in ErrorCode if code.value.fault is not Fault.USER}


class Gateway:
    """One gateway, as an asynchronous context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        found = find_login("root")
        self._root = Login(found.user, found.password)

    async def __aenter__(self) -> Gateway:
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT),
            connector=aiohttp.TCPConnector(ssl=find_trust(self.url)),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def execute(
        self, sql: str, timezone: str = "UTC", dialect: Dialect = "tdengine", login: Login | None = None
    ) -> Answer:
        """Runs one statement. The dialect is named only where the statement itself does not show it. Without
        a login, root sends it.

        :raises Refused: with the gateway's reason.
        :raises Broken: if the gateway does not answer, or answers that it failed itself.
        """
        parameters = {"tz": timezone} | ({"dialect": dialect} if dialect == "iotdb" else {})
        try:
            async with self._http.post(
                f"{self.url}/rest/sql",
                data=sql.encode(),
                params=parameters,
                headers=_basic(login or self._root),
            ) as response:
                status, body = response.status, await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Broken(f"the gateway cannot be reached: {type(error).__name__} {error}") from error
        except ValueError as error:
            raise Broken(f"the gateway answered with status {status}, but not with JSON") from error
        return read(status, body)


def _basic(login: Login) -> dict[str, str]:
    token = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def read(status: int, body: Any) -> Answer:
    """The REST protocol's JSON as an answer; raises the same errors as :meth:`Gateway.execute`."""
    if not isinstance(body, dict) or not isinstance(body.get("code"), int):
        raise Broken(
            f"the gateway answered with status {status}, but not as the REST protocol says: {body!r:.200}"
        )
    if body["code"] != 0:
        reason = f"{body.get('desc')} (code 0x{body['code']:04x})"
        raise Broken(reason) if body["code"] in _OURS else Refused(reason)
    try:
        columns = [(str(name), str(type_)) for name, type_, *_ in body["column_meta"]]
        rows = tuple(tuple(row) for row in body["data"])
    except (KeyError, TypeError, ValueError) as error:
        raise Broken(f"the answer lacks column_meta or data: {body!r:.200}") from error
    if any(len(row) != len(columns) for row in rows) or body.get("rows") != len(rows):
        raise Broken(f"column_meta, data and rows do not agree: {body!r:.200}")
    return Answer(tuple(name for name, _ in columns), tuple(type_ for _, type_ in columns), rows)
