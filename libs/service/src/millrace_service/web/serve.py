"""Running a service's app until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI

from millrace_service.life import process_failed
from millrace_service.web.patience import CONNECTIONS, HEAD_BYTES, PatientProtocol

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept, longer than clients keep theirs (httpx 5, aiohttp 15, many 60). So
the client closes first: a request sent just as the server closes would find the connection reset."""

BACKLOG = 2048
"""Connections that may wait to be accepted: uvicorn's own number."""

TICK = 1.0
"""Seconds after which the time in answers' headers is set anew."""


class Server(uvicorn.Server):
    """A server that is told when it is to end, and so need not look ten times a second: four services that
    do take a hundredth of a core while nothing happens."""

    _exits = False
    _told: Callable[[], object] = staticmethod(lambda: None)

    @property
    def should_exit(self) -> bool:
        """Whether it is to end. May be set by any thread, and by handlers of signals."""
        return self._exits

    @should_exit.setter
    def should_exit(self, exits: bool) -> None:
        self._exits = exits
        self._told()

    async def main_loop(self) -> None:
        told, loop = asyncio.Event(), asyncio.get_running_loop()
        self._told = lambda: loop.call_soon_threadsafe(told.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), TICK)
        self._told = Server._told


def serve(
    app: FastAPI, host: str, port: int, stop_seconds: float = 10, other_port: int = 0,
    tls: tuple[str, str] | None = None,
) -> int:  # fmt: skip
    """Serve until SIGTERM or SIGINT. Then take no more requests, let running ones end within
    ``stop_seconds``, run the app's lifespan to its end, and return the process's exit status: 1 if a thread
    could not go on. ``other_port``: a second port to answer at (0: none). ``tls``: files of a certificate and
    its key, to answer by https. Exits the process if a port is taken or the lifespan does not start."""
    server = server_of(app, host, port, stop_seconds, tls)

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn takes these signals over while it runs; when done, it raises them again for the
    # previous handlers
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if other_port:
            server.run([_listening(host, one) for one in (port, other_port)])
        else:
            server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(process_failed())


def server_of(
    app: FastAPI, host: str, port: int, stop_seconds: float = 10, tls: tuple[str, str] | None = None
) -> Server:
    """The server of an app, with Millrace's limits on time and size."""
    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            ssl_certfile=tls[0] if tls else None,
            ssl_keyfile=tls[1] if tls else None,
            http=PatientProtocol,
            h11_max_incomplete_event_size=HEAD_BYTES,
            limit_concurrency=CONNECTIONS,
            # nothing that a subscriber sends matters
            ws_max_size=HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE,
            # uvicorn takes whole seconds only
            timeout_graceful_shutdown=max(1, round(stop_seconds)),
        )
    )


def _listening(host: str, port: int) -> socket.socket:
    """:raises SystemExit: if the port is taken, as uvicorn does."""
    try:
        return socket.create_server((host, port), backlog=BACKLOG)
    except OSError as error:
        structlog.get_logger().error("cannot listen", host=host, port=port, reason=str(error))
        raise SystemExit(1) from error
