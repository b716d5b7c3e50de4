"""Running a service's app until it is told to stop."""

from __future__ import annotations

import signal
from types import FrameType

import uvicorn
from fastapi import FastAPI

from millrace_service.life import process_failed

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept, longer than clients keep theirs (httpx 5, aiohttp 15, many 60):
the client closes first, for a request sent just when the server closes finds the connection reset."""


def serve(app: FastAPI, host: str, port: int, stop_seconds: float = 10) -> int:
    """Serve until SIGTERM or SIGINT; then take no more requests, let those under way end within
    ``stop_seconds``, run the app's lifespan to its end, and return the process's exit status: 1 if a thread
    could not go on. Exits the process if the port is taken or the lifespan does not start."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE,
            # it takes whole seconds only
            timeout_graceful_shutdown=max(1, round(stop_seconds)),
        )
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn takes these over while it runs, and when done raises the signal anew for whom it took it from
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(process_failed())
