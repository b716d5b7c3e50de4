"""A real analytics node on a socket of its own, for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from millrace_analytics.anode_app import anode_app


@contextmanager
def serving() -> Iterator[str]:
    """Its address, ``host:port``."""
    server = uvicorn.Server(uvicorn.Config(anode_app(), port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
