"""HTTP connections with limited patience: a client that sends its request too slowly loses the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""How long a client may take until a request's head has ended, from its first byte or from the
connection on."""
BODY_SECONDS = 20.0
"""How long the body of a request may arrive more slowly than :data:`LEAST_RATE`."""
LEAST_RATE = 1_000
"""Bytes a second."""
HEAD_BYTES = 65_536
"""The longest head of a request."""
CONNECTIONS = 1_000
"""Connections, and requests, at the same time; any beyond are answered with 503."""


class PatientProtocol(H11Protocol):
    """Looks at its connection every few seconds as long as there is one. (uvicorn's own timer only covers
    connections that are idle after an answer.)"""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._looking: asyncio.TimerHandle | None = None
        self._came = 0
        self._asked = 0.0
        self._waits: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        super().data_received(data)

    def _look(self) -> None:
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return None  # a WebSocket has its own rules
        now, waits = self.loop.time(), self._waiting()
        if waits is None or waits != self._waits:
            self._waits, self._asked, self._came = waits, now, 0
        elif waits is h11.SEND_BODY:
            if now - self._asked >= BODY_SECONDS:
                if self._came < LEAST_RATE * (now - self._asked):
                    return self._cut()
                self._asked, self._came = now, 0
        elif now - self._asked >= HEAD_SECONDS:
            return self._cut()
        self._looking = self.loop.call_later(min(HEAD_SECONDS, BODY_SECONDS) / 4, self._look)
        return None

    def _waiting(self) -> object:
        """What the client should be sending now; None if it is not its turn, or if it may take its time."""
        if self.conn.their_state is h11.SEND_BODY:
            return None if self.flow.read_paused else h11.SEND_BODY
        begun = bool(self.conn.trailing_data[0])
        if self.conn.their_state is h11.IDLE and (self.cycle is None or begun):
            return h11.IDLE
        return None

    def _cut(self) -> None:
        self.transport.abort()
