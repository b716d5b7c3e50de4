"""SQL over the gateway's REST endpoint, as far as the prompt and the demo need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from millrace.login import Login, find_login
from millrace.settings import StackSettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Trust


@dataclass(frozen=True)
class SqlResult:
    """A result: its columns (name, type, length) and rows. For a statement that gives no rows the only column
    is ``affected_rows``. ``note``: what else the gateway says about it."""

    columns: tuple[tuple[str, str, int], ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


def find_trust(url: str) -> Trust:
    """Whom a client of this gateway trusts, by the environment."""
    return StackSettings.from_environment().trust if url.startswith("https:") else True


class Rest:
    """A client of one gateway. It raises ``MillraceError``: UNAVAILABLE if nobody answers, else an error with
    the gateway's own words."""

    def __init__(
        self, url: str, login: Login | None = None, timeout: float = 60, trust: Trust | None = None
    ) -> None:
        """``login``, ``trust``: who asks, and whom the client trusts; if not given, the environment says."""
        one = login or find_login()
        self._url = url
        verify = find_trust(url) if trust is None else trust
        self._http = httpx.Client(auth=(one.user, one.password), timeout=timeout, verify=verify)

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def execute(self, sql: str, db: str | None = None) -> SqlResult:
        """Runs one statement, in ``db`` if given."""
        path = f"{self._url}/rest/sql" + (f"/{db}" if db else "")
        try:
            response = self._http.post(path, content=sql.encode())
        except httpx.TransportError as error:
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"the gateway at {self._url} cannot be reached: {error}"
            ) from error
        if response.status_code == 401:
            raise MillraceError(ErrorCode.AUTHENTICATION, "the gateway refused this user or password")
        return answer(_json(response))


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise MillraceError(
            ErrorCode.INTERNAL,
            f"the gateway answered with status {response.status_code}, but not with a JSON object",
        )
    return body


def answer(body: dict[str, Any]) -> SqlResult:
    """The gateway's JSON as an :class:`SqlResult`; raises the error if the JSON holds one."""
    if body.get("code") != 0:
        number = body.get("code")
        code = next((one for one in ErrorCode if one.value.number == number), ErrorCode.INTERNAL)
        raise MillraceError(code, str(body.get("desc", "the gateway gave no reason")))
    columns = tuple((str(name), str(type_), int(length)) for name, type_, length in body["column_meta"])
    return SqlResult(columns, tuple(tuple(row) for row in body["data"]), str(body.get("note", "")))
