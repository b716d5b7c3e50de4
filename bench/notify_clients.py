"""The other side of notify-svc, as processes of their own: ``python -m bench.notify_clients receive …`` is an
address, ``subscribe …`` are many subscribers. Each prints one line of JSON when it is ready, one when
done."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

AT_ONCE = 50
"""Subscriptions that are opened at the same time."""


class Event(msgspec.Struct):
    """What the bench writes: a running number, and when it was written (``time.time_ns``)."""

    n: int
    at: int


class Told(msgspec.Struct):
    """A stream of a message."""

    events: list[Event]


class Message(msgspec.Struct):
    """A message to an address or a subscriber."""

    streams: list[Told] = []
    missed: int | None = 0


decode = msgspec.json.Decoder(Message).decode


def say(found: dict[str, Any]) -> None:
    """One line for the bench."""
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()


async def receive(total: int) -> None:
    """Takes events 0…total-1 over one connection; tells when the last one came, and whether all came in
    order."""
    found, connections = 0, 0
    in_order = True
    done = asyncio.Event()

    async def handle(request: web.Request) -> web.WebSocketResponse:
        nonlocal found, connections, in_order
        connections += 1
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            for told in decode(message.data).streams:
                for event in told.events:
                    in_order = in_order and event.n == found
                    found += 1
            if found >= total:
                done.set()
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    say({"url": f"ws://127.0.0.1:{address[1]}/"})
    await done.wait()
    say({"at": time.time(), "events": found, "in_order": in_order, "connections": connections})
    await runner.cleanup()


async def subscribe(url: str, auth: str, count: int, total: int, warm: int) -> None:
    """``count`` subscribers, each until it has events 0…total-1; tells how many events were missed or out of
    order, and the latencies (ms) of the events from number ``warm`` on, as counts by whole milliseconds."""
    took: dict[int, int] = {}
    wrong = 0
    opened = asyncio.Semaphore(AT_ONCE)
    ready = asyncio.Barrier(count + 1)

    async def one(session: aiohttp.ClientSession) -> None:
        nonlocal wrong
        async with opened:
            socket = await session.ws_connect(url, max_msg_size=0, compress=0)
        await ready.wait()
        next_ = 0
        while next_ < total:
            message = decode((await socket.receive_str(timeout=60)).encode())
            now = time.time_ns()
            wrong += message.missed or 0
            next_ += message.missed or 0
            for told in message.streams:
                for event in told.events:
                    wrong += event.n != next_
                    next_ = event.n + 1
                    if event.n >= warm:
                        late = (now - event.at) // 1_000_000
                        took[late] = took.get(late, 0) + 1
        await socket.close()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers={"Authorization": auth}, connector=connector) as session:
        tasks = [asyncio.create_task(one(session)) for _ in range(count)]
        await ready.wait()
        say({"subscribers": count})
        await asyncio.gather(*tasks)
    say({"wrong": wrong, "took": sorted(took.items())})


def main() -> None:
    """The command line."""
    root = argparse.ArgumentParser(prog="bench.notify_clients", description=__doc__)
    which = root.add_subparsers(dest="which", required=True)
    which.add_parser("receive").add_argument("total", type=int)
    many = which.add_parser("subscribe")
    many.add_argument("url")
    many.add_argument("auth")
    for name in ("count", "total", "warm"):
        many.add_argument(name, type=int)
    given = root.parse_args()
    if given.which == "receive":
        asyncio.run(receive(given.total))
    else:
        asyncio.run(subscribe(given.url, given.auth, given.count, given.total, given.warm))


if __name__ == "__main__":
    main()
