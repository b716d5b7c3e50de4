"""Clients that go away: whatever still runs for them is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

AGAIN = 1.0
"""Seconds until ``leave`` is called again: a query may not have begun the first time."""
_leaving: list[CapacityLimiter] = []
Found = TypeVar("Found")


async def while_there(request: Request, work: Callable[[], Found], leave: Callable[[], None]) -> Found:
    """Do ``work`` in a thread, and return its result. The request's body must have been read. If the client
    goes away before that, ``leave`` is called, again and again until the work is over."""
    watching = asyncio.create_task(_watch(request, leave))
    try:
        return await run_in_threadpool(work)
    finally:
        watching.cancel()


async def _watch(request: Request, leave: Callable[[], None]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not _leaving:  # own threads, for all those of requests may be taken; made once there is a loop
        _leaving.append(CapacityLimiter(4))
    while True:
        await to_thread.run_sync(leave, limiter=_leaving[0])
        await asyncio.sleep(AGAIN)
