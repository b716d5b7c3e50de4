"""Clients that go away: whatever still runs for them is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

AGAIN = 1.0
"""Seconds until the next try: a query may not have begun yet."""
_leaving: list[CapacityLimiter] = []
Found = TypeVar("Found")


async def while_there(request: Request, work: Callable[[], Found], leave: Callable[[], None]) -> Found:
    """What ``work`` gives, in a thread; the request's body has been read. Where the client goes away before,
    ``leave`` is called, again and again until the work is over."""
    watching = asyncio.create_task(_watch(request, leave))
    try:
        return await run_in_threadpool(work)
    finally:
        watching.cancel()


async def _watch(request: Request, leave: Callable[[], None]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not _leaving:  # not made before there is a loop; the threads of requests may all be taken
        _leaving.append(CapacityLimiter(4))
    while True:
        await to_thread.run_sync(leave, limiter=_leaving[0])
        await asyncio.sleep(AGAIN)
