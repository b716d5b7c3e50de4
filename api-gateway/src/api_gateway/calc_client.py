"""Asking calc-svc: rows of queries, and the result columns of streams."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pyarrow as pa

from api_gateway.answer import Answer, AnswerColumn
from api_gateway.session import Session
from millrace_core.dialect.query.nodes import START
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import ResultColumn, StreamSpec
from millrace_core.model.types import DataType
from millrace_core.recalc.judged import Judged
from millrace_service import ServiceToken, Trust

Offsets = dict[str, dict[int, int]]
PRECISIONS: dict[str, Precision] = {precision: precision for precision in TICKS_PER_SECOND}


class _Described(msgspec.Struct):
    columns: tuple[ResultColumn, ...]


class CalcClient:
    """One connection pool to calc-svc; used by many threads."""

    def __init__(
        self, url: str, seconds: float, token: ServiceToken, transport: httpx.BaseTransport | None = None,
        trust: Trust = True,
    ) -> None:  # fmt: skip
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
        timeout = httpx.Timeout(seconds, connect=5)
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout,
            limits=limits,
            transport=transport,
            headers=token.header,
            verify=trust,
        )

    def query(self, sql: str, session: Session, catalog: int, wal: Offsets) -> Answer:
        """Rows of a query. ``catalog`` and ``wal``: first offsets that it need not have seen.

        :raises MillraceError: what calc-svc says is wrong; UNAVAILABLE or TIMEOUT if it does not answer.
        """
        body = {
            "sql": sql, "db": session.database, "timezone": session.timezone, "user": session.user,
            "catalog": catalog, "wal": wal,
        }  # fmt: skip
        return read_arrow(self._post("/query", body))

    def describe(self, spec: StreamSpec, catalog: int, origin: Position) -> tuple[ResultColumn, ...]:
        """The result columns of a stream's query, which begins at ``origin`` in the user's statement."""
        try:
            found = self._post("/describe", {"spec": spec, "catalog": catalog})
        except MillraceError as error:
            raise _moved(error, spec, origin) from error
        try:
            return msgspec.json.decode(found, type=_Described).columns
        except msgspec.DecodeError as error:
            raise MillraceError(ErrorCode.INTERNAL, f"calc-svc described no columns: {error}") from error

    def verify(
        self, stream: int, span: tuple[int, int], judged: Judged, limit: int, seconds: float, timezone: str,
        catalog: int, wal: Offsets,
    ) -> Answer:  # fmt: skip
        """VERIFY STREAM: the output rows of the range ``span`` (ticks, ends included) that differ.

        :raises MillraceError: what calc-svc says is wrong; UNAVAILABLE or TIMEOUT if it does not answer.
        """
        body = {
            "stream": stream, "first": span[0], "last": span[1], "judged": judged, "limit": limit,
            "seconds": seconds, "timezone": timezone, "catalog": catalog, "wal": wal,
        }  # fmt: skip
        return read_arrow(self._post("/verify", body))

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, body: dict[str, Any]) -> bytes:
        try:
            response = self._http.post(
                path, content=msgspec.json.encode(body), headers={"Content-Type": "application/json"}
            )
        except httpx.ConnectTimeout as error:
            raise self._away(error) from error
        except httpx.TimeoutException as error:
            raise MillraceError(
                ErrorCode.TIMEOUT, f"calc-svc at {self._url} did not answer in time; try again"
            ) from error
        except httpx.TransportError as error:
            raise self._away(error) from error
        if response.status_code == 200:
            return response.content
        try:
            raise MillraceError.from_wire(response.json())
        except (ValueError, AttributeError):
            raise MillraceError(
                ErrorCode.INTERNAL, f"calc-svc answered with status {response.status_code} and no reason"
            ) from None

    def _away(self, error: Exception) -> MillraceError:
        reason = str(error) or type(error).__name__
        return MillraceError(ErrorCode.UNAVAILABLE, f"calc-svc at {self._url} does not answer: {reason}")


def _moved(error: MillraceError, spec: StreamSpec, origin: Position) -> MillraceError:
    """A place in ``spec.sql``, which begins at CREATE, as one in what the user sent, where blanks may
    stand before it; ``origin`` is where the query begins there."""
    at = error.position
    if at is None or spec.query is None:
        return MillraceError(error.code, error.message, origin)
    inside = spec.places.query or START
    begins = Position(
        origin.line - inside.line + 1, origin.column - inside.column + 1 if inside.line == 1 else 1
    )
    return MillraceError(error.code, error.message, at.beyond(begins))


def read_arrow(data: bytes) -> Answer:
    """An Arrow IPC stream whose fields say their types in ``millrace.type`` and ``millrace.precision``."""
    try:
        table = pa.ipc.open_stream(data).read_all()
        columns = tuple(_column(field) for field in table.schema)
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise MillraceError(ErrorCode.INTERNAL, f"calc-svc sent rows that cannot be read: {error}") from error
    cells = [column.to_pylist() for column in table.columns]
    return Answer(columns, list(zip(*cells, strict=True)))


def _column(field: Any) -> AnswerColumn:
    metadata = field.metadata or {}
    name, _, length = metadata[b"millrace.type"].decode().partition("(")
    type_ = DataType.of(name, int(length.rstrip(")")) if length else None)
    precision = PRECISIONS[metadata.get(b"millrace.precision", b"ms").decode()]
    return AnswerColumn(field.name, type_, precision)
