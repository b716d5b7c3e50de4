"""The client of calc-svc: rows of queries, result columns of streams, and which queries are running."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import pyarrow as pa

from api_gateway.answer import Answer, AnswerColumn
from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.language.query.nodes import START
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import ResultColumn, StreamSpec
from millrace_core.model.types import DataType
from millrace_core.recalc.judged import Judged
from millrace_service import ServiceToken, Trust

MARGIN_SECONDS = 10.0
"""Seconds that calc-svc may still take to answer after a query's time is over."""
Offsets = dict[str, dict[int, int]]
PRECISIONS: dict[str, Precision] = {precision: precision for precision in TICKS_PER_SECOND}


class _Described(msgspec.Struct):
    columns: tuple[ResultColumn, ...]


class RunningQuery(msgspec.Struct):
    """A query as calc-svc describes it. ``began``: nanoseconds since the epoch; ``took``: microseconds."""

    id: str
    user: str | None
    sql: str
    began: int
    took: int


class _Asking:
    """How many queries each user has under way. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock, self._counts = most, threading.Lock(), Counter[str]()

    @contextmanager
    def of(self, user: str) -> Iterator[None]:
        """The user has one more query under way meanwhile; :raises MillraceError: TOO_MANY."""
        with self._lock:
            if self._counts[user] >= self._most:
                raise MillraceError(
                    ErrorCode.TOO_MANY,
                    f"{user} already has {self._most} queries in progress (MILLRACE_USER_QUERIES): wait "
                    "for one of them to end, or use KILL QUERY",
                )
            self._counts[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[user] -= 1
                if not self._counts[user]:
                    del self._counts[user]


class CalcClient:
    """One connection pool to calc-svc; used by many threads."""

    def __init__(
        self, url: str, seconds: float, token: ServiceToken, transport: httpx.BaseTransport | None = None,
        trust: Trust = True, most: int = 16,
    ) -> None:  # fmt: skip
        """``seconds``: how long a query may take; ``most``: how many queries one user may have at a time."""
        self._seconds, self._asking = seconds, _Asking(most)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
        # calc-svc itself ends a query that takes too long, and says why
        timeout = httpx.Timeout(seconds + MARGIN_SECONDS, connect=5)
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout,
            limits=limits,
            transport=transport,
            headers=token.header,
            verify=trust,
        )

    def query(
        self, sql: str, session: Session, catalog: int, wal: Offsets, seconds: float | None = None
    ) -> Answer:
        """Rows of a query. ``catalog`` and ``wal``: the first offsets that it need not have seen;
        ``seconds``: how long it may take, if that is to be less than for other queries.

        :raises MillraceError: the error that calc-svc reports; UNAVAILABLE or TIMEOUT if it does not answer.
        """
        may_take = self._seconds if seconds is None else min(seconds, self._seconds)
        body = {
            "sql": sql, "db": session.database, "timezone": session.timezone, "user": session.user,
            "id": session.id, "seconds": may_take, "catalog": catalog, "wal": wal,
        }  # fmt: skip
        # a caller with little time does not wait for calc-svc's reason either
        wait = None if seconds is None else may_take + 1
        with self._asking.of(session.user):
            return read_arrow(self._post("/query", body, wait))

    def running(self) -> list[RunningQuery]:
        """The users' queries that are running."""
        return msgspec.json.decode(self._send("GET", "/queries"), type=list[RunningQuery])

    def kill(self, id_: str, by: str, user: str | None = None) -> None:
        """End the queries of a statement; ``user``: whose they must be (None: anybody's).

        :raises MillraceError: UNKNOWN_QUERY if none runs.
        """
        self._post("/kill", {"id": id_, "by": by, "user": user})

    def describe(
        self, spec: StreamSpec, catalog: int, origin: Position, user: str | None
    ) -> tuple[ResultColumn, ...]:
        """The result columns of a stream's query, which begins at ``origin`` in the statement of ``user``."""
        try:
            found = self._post("/describe", {"spec": spec, "catalog": catalog, "user": user})
        except MillraceError as error:
            raise _moved(error, spec, origin) from error
        try:
            return msgspec.json.decode(found, type=_Described).columns
        except msgspec.DecodeError as error:
            raise MillraceError(
                ErrorCode.INTERNAL, f"the columns that calc-svc sent cannot be read: {error}"
            ) from error

    def verify(
        self, stream: int, span: tuple[int, int], judged: Judged, limit: int, session: Session, sql: str,
        catalog: int, wal: Offsets,
    ) -> Answer:  # fmt: skip
        """VERIFY STREAM: the output rows of the range ``span`` (ticks, ends included) that differ.

        :raises MillraceError: the error that calc-svc reports; UNAVAILABLE or TIMEOUT if it does not answer.
        """
        body = {
            "stream": stream, "first": span[0], "last": span[1], "judged": judged, "limit": limit,
            "seconds": self._seconds, "timezone": session.timezone, "sql": sql, "id": session.id,
            "user": session.user, "catalog": catalog, "wal": wal,
        }  # fmt: skip
        with self._asking.of(session.user):
            return read_arrow(self._post("/verify", body))

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, body: dict[str, Any], wait: float | None = None) -> bytes:
        return self._send("POST", path, msgspec.json.encode(body), wait)

    def _send(self, method: str, path: str, body: bytes | None = None, wait: float | None = None) -> bytes:
        """``wait``: seconds within which calc-svc must answer; None: as for any query."""
        try:
            response = self._http.request(
                method, path, content=body, headers={"Content-Type": "application/json"} if body else None,
                timeout=self._http.timeout if wait is None else httpx.Timeout(wait),
            )  # fmt: skip
        except httpx.ConnectTimeout as error:
            raise self._away(error) from error
        except httpx.TimeoutException as error:
            raise MillraceError(
                ErrorCode.TIMEOUT, f"calc-svc at {self._url} did not answer in time; try again"
            ) from error
        except httpx.TransportError as error:
            raise self._away(error) from error
        if response.is_success:
            return response.content
        try:
            raise MillraceError.from_wire(response.json())
        except (ValueError, AttributeError):
            raise MillraceError(
                ErrorCode.INTERNAL, f"calc-svc answered with status {response.status_code} and gave no reason"
            ) from None

    def _away(self, error: Exception) -> MillraceError:
        reason = str(error) or type(error).__name__
        return MillraceError(ErrorCode.UNAVAILABLE, f"calc-svc at {self._url} cannot be reached: {reason}")


def _moved(error: MillraceError, spec: StreamSpec, origin: Position) -> MillraceError:
    """The error with its place in ``spec.sql`` (which begins at CREATE) turned into a place in what the user
    sent, where blanks may come before CREATE; ``origin``: where the query begins in what the user sent."""
    at = error.position
    if at is None or spec.query is None:
        return MillraceError(error.code, error.message, origin)
    inside = spec.places.query or START
    begins = Position(
        origin.line - inside.line + 1, origin.column - inside.column + 1 if inside.line == 1 else 1
    )
    return MillraceError(error.code, error.message, at.beyond(begins))


def read_arrow(data: bytes) -> Answer:
    """Read an Arrow IPC stream; its fields' types are in ``millrace.type`` and ``millrace.precision``."""
    try:
        table = pa.ipc.open_stream(data).read_all()
        columns = tuple(_column(field) for field in table.schema)
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise MillraceError(
            ErrorCode.INTERNAL, f"the rows that calc-svc sent cannot be read: {error}"
        ) from error
    cells = [column.to_pylist() for column in table.columns]
    return Answer(columns, list(zip(*cells, strict=True)))


def _column(field: Any) -> AnswerColumn:
    metadata = field.metadata or {}
    name, _, length = metadata[b"millrace.type"].decode().partition("(")
    type_ = DataType.of(name, int(length.rstrip(")")) if length else None)
    precision = PRECISIONS[metadata.get(b"millrace.precision", b"ms").decode()]
    return AnswerColumn(field.name, type_, precision)
