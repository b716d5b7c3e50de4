"""Subscribers over real sockets: who may, what they get, where they go on, what they miss."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvicorn
from aiohttp import web

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice import position
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import MemoryLog, Message
from notify_svc.app import notify_app
from notify_svc.feed import Feed
from notify_svc.subscribers import Subscriber

NO_MORE = {
    "revoked": (403, "PERMISSION", "Insufficient privilege"),
    "gone": (404, "UNKNOWN_STREAM", "the stream db.s does not exist"),
}  # fmt: skip
SAID: list[str] = []
"""What has become of the stream for who listens."""
GOOD = "Basic " + base64.b64encode(b"root:taosdata").decode()


async def gateway(request: web.Request) -> web.StreamResponse:
    """The gateway's answers to ``GET /api/v1/streams/{name}/subscription``."""
    if SAID:
        status, code, text = NO_MORE[SAID[0]]
        return web.json_response({"code": code, "message": text}, status=status)
    if request.headers["Authorization"] != GOOD:
        return web.json_response({"code": "AUTHENTICATION", "message": "Authentication failure"}, status=401)
    if request.path != "/api/v1/streams/db.s/subscription":
        message = {"code": "UNKNOWN_STREAM", "message": "the stream does not exist"}
        return web.json_response(message, status=404)
    return web.Response(status=204)


@asynccontextmanager
async def service(lab: Any, log: MemoryLog, **more: Any) -> AsyncIterator[str]:
    """notify-svc with its endpoint on a port of its own."""
    asked, port = lab.free_port(), lab.free_port()
    chosen = lab.settings(gateway_url=f"http://127.0.0.1:{asked}", **more)
    server = uvicorn.Server(
        uvicorn.Config(notify_app(chosen, lambda: log, lab.logger), port=port, log_config=None)
    )
    async with lab.serving(asked, gateway):
        task = asyncio.create_task(server.serve())
        await lab.until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def subscribed(
    url: str, query: str = "", stream: str = "db.s", auth: str = GOOD
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    address = f"{url}/api/v1/streams/{stream}/events?{query}"
    async with (
        aiohttp.ClientSession(headers={"Authorization": auth}) as session,
        session.ws_connect(address) as socket,
    ):
        yield socket


async def receive(socket: aiohttp.ClientWebSocketResponse, count: int) -> tuple[list[int], str]:
    """The numbers of the next events, and the position behind them."""
    found: list[int] = []
    at = ""
    while len(found) < count:
        message = await socket.receive_json(timeout=10)
        assert "missed" not in message, message
        found += [event["n"] for stream in message["streams"] for event in stream["events"]]
        at = message["position"]
    return found, at


def test_a_subscriber_filters_by_event_and_group(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        async with service(lab, log) as url, subscribed(url, "group=2&event=window_close") as socket:
            lab.write(log, range(3), group="1")
            event: dict[str, object] = {"eventType": "WINDOW_OPEN", "n": 99}
            batch = NoticeBatch([Notice("db.s", "2", event), Notice("db.other", "2", event | {"n": 98})], 7)
            log.append([Message(NOTIFICATIONS.name, b"7/2", notices.encode(batch))])
            lab.write(log, range(3, 6), group="2")
            assert (await receive(socket, 3))[0] == [3, 4, 5]

    asyncio.run(run())


@pytest.mark.parametrize("why", NO_MORE)
def test_who_may_read_no_more_is_cut_off_and_told_why(lab: Any, log: MemoryLog, why: str) -> None:
    async def run() -> None:
        async with service(lab, log, notify_access_seconds=0.1) as url, subscribed(url) as socket:
            lab.write(log, range(3))
            assert (await receive(socket, 3))[0] == [0, 1, 2]
            SAID.append(why)
            try:
                told = await socket.receive(timeout=10)
            finally:
                SAID.clear()
            assert told.type is aiohttp.WSMsgType.CLOSE
            assert (told.data, told.extra) == (1008, NO_MORE[why][2])

    asyncio.run(run())


def test_a_gateway_that_is_away_cuts_nobody_off(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        asked, port = lab.free_port(), lab.free_port()
        chosen = lab.settings(gateway_url=f"http://127.0.0.1:{asked}", notify_access_seconds=0.1)
        config = uvicorn.Config(notify_app(chosen, lambda: log, lab.logger), port=port, log_config=None)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        await lab.until(lambda: server.started)
        async with lab.serving(asked, gateway):
            context = subscribed(f"http://127.0.0.1:{port}")
            socket = await context.__aenter__()
        await asyncio.sleep(0.5)  # five times it is asked in vain
        lab.write(log, range(2))
        assert (await receive(socket, 2))[0] == [0, 1]
        await context.__aexit__(None, None, None)
        server.should_exit = True
        await task

    asyncio.run(run())


def test_it_goes_on_behind_a_position(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        lab.write(log, range(5))
        async with service(lab, log) as url:
            async with subscribed(url) as socket:
                lab.write(log, range(5, 10))
                first, at = await receive(socket, 5)
                assert first == [5, 6, 7, 8, 9]
            lab.write(log, range(10, 800))
            async with subscribed(url, f"after={at}") as socket:
                lab.write(log, range(800, 805))
                found, at = await receive(socket, 795)
                assert found == list(range(10, 805))
                # it is with the others now
                lab.write(log, range(805, 810))
                assert (await receive(socket, 5))[0] == list(range(805, 810))
            async with subscribed(url, "after=earliest") as socket:
                assert (await receive(socket, 810))[0] == list(range(810))

    asyncio.run(run())


def test_it_can_go_on_where_it_began_before_any_event(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        lab.write(log, range(3))
        async with service(lab, log) as url:
            async with subscribed(url) as socket:
                start = socket._response.headers["x-millrace-position"]
            lab.write(log, range(3, 6))
            async with subscribed(url, f"after={start}") as socket:
                assert (await receive(socket, 3))[0] == [3, 4, 5]

    asyncio.run(run())


def test_a_position_in_the_middle_of_a_record(lab: Any, log: MemoryLog) -> None:
    found: list[dict[str, object]] = [{"eventType": "ON_TIME", "n": n} for n in range(6)]
    batch = NoticeBatch([Notice("db.s", "0", event) for event in found], 7)
    log.append([Message(NOTIFICATIONS.name, b"7/0", notices.encode(batch))])

    async def run() -> None:
        feed = Feed(log, lab.logger)
        small = Subscriber("db.s", frozenset(), None, limit=1000)
        async with feed.subscribed(small, "earliest"):
            everything = await small.take()
        assert [json.loads(one.event)["n"] for one in everything.events] == list(range(6))
        (partition,) = {p for p, (offset, _) in everything.position.items() if offset}
        cut = position.write(dict(everything.position) | {partition: (0, 4)})
        rest = Subscriber("db.s", frozenset(), None, limit=1000)
        async with feed.subscribed(rest, cut):
            assert [json.loads(one.event)["n"] for one in (await rest.take()).events] == [4, 5]

    asyncio.run(run())


def test_what_it_has_no_room_for_is_missed_and_told_and_can_be_had_again(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        feed = Feed(log, lab.logger)
        slow, quick = (Subscriber("db.s", frozenset(), None, limit=n) for n in (2, 1000))
        async with feed.subscribed(slow), feed.subscribed(quick):
            lab.write(log, range(10))
            got: list[int] = []
            while len(got) < 10:
                got += [json.loads(one.event)["n"] for one in (await quick.take()).events]
            assert got == list(range(10))
            taken = await slow.take()
        assert [json.loads(one.event)["n"] for one in taken.events] == [0, 1]
        assert taken.missed == 8
        again = Subscriber("db.s", frozenset(), None, limit=3)
        async with feed.subscribed(again, position.write(taken.position)):
            numbers: list[int] = []
            while len(numbers) < 8:
                more = await again.take()
                # while it catches up it is waited for: nothing is missed
                assert more.missed == 0
                numbers += [json.loads(one.event)["n"] for one in more.events]
        assert numbers == list(range(2, 10))
        assert taken.end != taken.position

    asyncio.run(run())


def test_one_that_reads_nothing_keeps_no_other_from_resuming(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        lab.write(log, range(50))
        feed = Feed(log, lab.logger, catch_ups=1)
        stopped, good = (Subscriber("db.s", frozenset(), None, limit=n) for n in (5, 100))
        async with feed.subscribed(stopped, "earliest"), feed.subscribed(good, "earliest"):
            numbers: list[int] = []
            while len(numbers) < 50:
                numbers += [json.loads(one.event)["n"] for one in (await good.take()).events]
            assert numbers == list(range(50))
            late: list[int] = []
            while len(late) < 50:
                late += [json.loads(one.event)["n"] for one in (await stopped.take()).events]
            assert late == list(range(50))

    asyncio.run(run())


def test_what_is_not_kept_any_more_is_told(lab: Any) -> None:
    class Shortened(MemoryLog):
        """A log whose first records are gone, as Kafka's after its retention time."""

        def begin_offsets(self, topic: str) -> dict[int, int]:
            return {part: end // 2 for part, end in self.end_offsets(topic).items()}

    log = Shortened()
    log.ensure_topics([NOTIFICATIONS])
    lab.write(log, range(10))

    async def run() -> None:
        subscriber = Subscriber("db.s", frozenset(), None, limit=1000)
        async with Feed(log, lab.logger).subscribed(subscriber, "0:0,1:0,2:0,3:0"):
            found: list[int] = []
            first = await subscriber.take()
            assert first.missed is None
            while True:
                found += [json.loads(one.event)["n"] for one in first.events]
                if len(found) == 5:
                    break
                first = await subscriber.take()
                assert first.missed == 0
            assert found == [5, 6, 7, 8, 9]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("auth", "stream", "query", "status", "said"),
    [
        ("Basic bm90OnRoaXM=", "db.s", "", 401, "Authentication failure"),
        ("Digest x", "db.s", "", 401, "no credentials"),
        (GOOD, "db.unknown", "", 404, "does not exist"),
        (GOOD, "db.s", "event=WINDOW_BREAK", 400, "event=WINDOW_BREAK: must be one of WINDOW_OPEN"),
        (GOOD, "db.s", "after=yesterday", 400, "after=yesterday: not a valid position"),
        (GOOD, "db.s", "after=0:99", 400, "this position does not exist"),
        (GOOD, "db.s", "after=9:0", 400, "this position does not exist"),
        (
            GOOD,
            "db.s",
            "type=WINDOW_OPEN",
            400,
            "unknown parameter type: the parameters are after, event, group",
        ),
    ],
)
def test_a_wrong_subscription_is_refused(
    lab: Any, log: MemoryLog, auth: str, stream: str, query: str, status: int, said: str
) -> None:
    headers = {
        "Authorization": auth, "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Version": "13",
    }  # fmt: skip

    async def run() -> None:
        async with (
            service(lab, log) as url,
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{url}/api/v1/streams/{stream}/events?{query}") as answer,
        ):
            assert answer.status == status
            assert said in (await answer.json())["message"]

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "0", "0:", "x:1", "0:1,0:2", "0:1.", "-1:4", "0:1;1:2"])
def test_a_text_that_is_no_position(text: str) -> None:
    with pytest.raises(MillraceError) as caught:
        position.read(text)
    assert caught.value.code is ErrorCode.INVALID_VALUE


def test_a_position_is_read_as_written() -> None:
    at = {0: (12, 0), 3: (7, 2)}
    assert position.read(position.write(at)) == at
    assert position.latest(at, {3: (7, 3), 4: (1, 0)}) == {0: (12, 0), 3: (7, 3), 4: (1, 0)}


@pytest.mark.parametrize("later", [(13, 0), (12, 2)])
def test_of_two_positions_the_later_counts_whichever_tells_it(later: tuple[int, int]) -> None:
    """What only one of them knows counts, a log's begin too."""
    first, second = {0: (12, 1), 1: (0, 0)}, {0: later, 2: (0, 0)}
    both = {0: later, 1: (0, 0), 2: (0, 0)}
    assert position.latest(first, second) == position.latest(second, first) == both
    assert (first[0], second[0]) == ((12, 1), later), "neither is changed"
