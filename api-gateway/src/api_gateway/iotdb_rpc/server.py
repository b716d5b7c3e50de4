"""Connections of IoTDB's RPC: frames in, frames out. A frame is its length, four bytes, and a message.

A client that has not logged in may only send little, and must not be slow; one that has may stay silent for
as long as it likes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from structlog.typing import FilteringBoundLogger

from api_gateway import metrics
from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb_rpc.session import Client
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service.web.patience import BODY_SECONDS, CONNECTIONS, HEAD_SECONDS, LEAST_RATE

_LENGTH = struct.Struct(">i")
STOP_SECONDS = 10.0
STRANGER_BYTES = 16_384
"""The longest frame of a client that has not logged in."""
Talk = Callable[[Client], Callable[[bytes], bytes]]
"""Makes the function that answers one connection's frames; that raises ValueError for what is not a call."""


def talk(executor: IotdbExecutor) -> Talk:
    """:raises MillraceError: if the package that knows the calls is not installed."""
    try:
        from api_gateway.iotdb_rpc.protocol import Conversation
    except ImportError as error:
        raise MillraceError(
            ErrorCode.UNAVAILABLE,
            f"MILLRACE_IOTDB_RPC_PORT needs the package apache-iotdb: install api-gateway[iotdb] ({error})",
        ) from error
    return lambda client: Conversation(executor, client).answer


class RpcServer:
    """``limit``: how many bytes a frame may have; ``tls``: files of a certificate and its key."""

    def __init__(
        self, talk: Talk, logins: IotdbLogins, logger: FilteringBoundLogger, host: str, port: int,
        timezone: str, limit: int, tls: tuple[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._talk, self._logins, self._logger = talk, logins, logger
        self._host, self.port, self._timezone, self._limit = host, port, timezone, limit
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen; afterwards ``port`` is the one that was taken. :raises OSError: if that cannot be done."""
        context = None
        if self._tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*self._tls)
        self._server = await asyncio.start_server(
            self._connected, self._host, self.port, ssl=context,
            ssl_handshake_timeout=HEAD_SECONDS if context else None,
        )  # fmt: skip
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end the connections, once the calls under way have ended."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=STOP_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server makes one of each connection"
        self._open.add(task)
        try:
            if len(self._open) <= CONNECTIONS:
                await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            # the client is gone, too slow, or does not speak this protocol
            self._logger.debug("an RPC connection ended", reason=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            pass  # cancelled by stop, which waits for this; asyncio would report it as an error
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = writer.get_extra_info("peername")
        client = Client(self._logins, str(peer[0]) if peer else "", self._timezone)
        answer = self._talk(client)
        while frame := await self._frame(reader, known=client.user is not None):
            reply = await anyio.to_thread.run_sync(answer, frame)
            writer.write(_LENGTH.pack(len(reply)) + reply)
            await asyncio.wait_for(writer.drain(), _patience(len(reply)))

    async def _frame(self, reader: asyncio.StreamReader, *, known: bool) -> bytes:
        """The next frame; empty at the end. :raises ValueError: if it is too long."""
        try:
            head = await asyncio.wait_for(reader.readexactly(_LENGTH.size), None if known else HEAD_SECONDS)
        except asyncio.IncompleteReadError:
            return b""
        (length,) = _LENGTH.unpack(head)
        limit = self._limit if known else min(self._limit, STRANGER_BYTES)
        if not 0 < length <= limit:
            metrics.ERRORS.labels(ErrorCode.TOO_LARGE.name).inc()
            raise ValueError(f"a frame has {length} bytes, but must have 1 to {limit}")
        return await asyncio.wait_for(reader.readexactly(length), _patience(length))


def _patience(size: int) -> float:
    """Seconds that a message of this size may take."""
    return BODY_SECONDS + size / LEAST_RATE
