"""notify-svc as a process, with a real broker and real WebSocket receivers and subscribers."""

from __future__ import annotations

import asyncio
import base64
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from millrace.processes import free_port
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.types import Period
from millrace_core.wire import notices, status
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS
from millrace_wal import KafkaLog, Message, replay
from millrace_wal.contract.log import fresh, until

pytestmark = pytest.mark.java

GOOD = "Basic " + base64.b64encode(b"root:taosdata").decode()
Batch = Callable[..., Message]


def test_events_arrive_as_the_seed_says(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    before = time.time_ns() // 1_000_000
    log.append([batch(stream, range(3), receiver.url), batch(stream, range(10, 12), receiver.url, group="7")])
    assert until(lambda: len(receiver.events(stream)) == 5)
    first = receiver.messages[0]
    assert set(first) == {"messageId", "timestamp", "streams"}
    assert before <= first["timestamp"] <= time.time_ns() // 1_000_000
    assert len({m["messageId"] for m in receiver.messages}) == len(receiver.messages)
    groups = {g: [e["n"] for e in receiver.events(stream) if e["groupId"] == g] for g in ("0", "7")}
    assert groups == {"0": [0, 1, 2], "7": [10, 11]}
    assert receiver.connections == 1
    assert until(lambda: service.metric("millrace_notify_delivered_total", stream=stream) == 5)


def test_what_waits_goes_in_few_messages(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    log.append([batch(stream, range(n, n + 1), receiver.url) for n in range(3000)])
    arrived = until(lambda: set(receiver.numbers(stream)) == set(range(3000)))
    numbers = receiver.numbers(stream)
    assert arrived, (len(numbers), len(receiver.messages), receiver.connections)
    # a connection that did not answer for half a second is opened again, and its last events are sent twice
    assert list(dict.fromkeys(numbers)) == list(range(3000))
    assert len(receiver.messages) < 1000


def test_an_event_takes_milliseconds(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    took: list[float] = []
    for n in range(40):
        start = time.monotonic()
        log.append([batch(stream, range(n, n + 1), receiver.url)])
        assert until(lambda n=n: len(receiver.messages) > n)  # type: ignore[misc]
        took.append(time.monotonic() - start)
        time.sleep(0.01)
    # a guard against waits on the way (polling, fetching, batching), with room for a busy machine
    assert sorted(took)[len(took) // 2] < 0.06


def test_a_kill_loses_nothing(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")

    def write() -> None:
        for start in range(0, 3000, 5):
            log.append([batch(stream, range(start, start + 5), receiver.url)])
            time.sleep(0.04)  # a member that was killed has its partitions again after its session's end

    writer = threading.Thread(target=write)
    writer.start()
    for reached in (200, 900):
        assert until(lambda reached=reached: len(set(receiver.numbers(stream))) >= reached)  # type: ignore[misc]
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
        assert len(set(receiver.numbers(stream))) < 3000
        service.spawn()
    writer.join()
    assert until(lambda: set(receiver.numbers(stream)) == set(range(3000)), 40)
    # events may come again, but each comes first in its place, and with its triggerId
    assert list(dict.fromkeys(receiver.numbers(stream))) == list(range(3000))
    assert {e["triggerId"] for e in receiver.events(stream)} == {f"{stream}-{n}" for n in range(3000)}
    assert until(lambda: service.health() == 200)


def test_a_stop_delivers_commits_and_repeats_nothing(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    log.append([batch(stream, range(50), receiver.url)])
    assert until(lambda: len(receiver.events(stream)) == 50)
    assert service.end(signal.SIGTERM) == 0
    log.append([batch(stream, range(50, 60), receiver.url)])
    service.start()
    assert until(lambda: len(receiver.events(stream)) >= 60)
    assert receiver.numbers(stream) == list(range(60))


def test_an_address_where_nothing_listens_is_dropped_and_counted(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    nowhere = f"ws://127.0.0.1:{free_port()}/"
    log.append([batch(stream, range(20), nowhere, receiver.url)])
    assert until(lambda: receiver.numbers(stream) == list(range(20)), 5)
    dropped = "millrace_notify_dropped_total"
    assert until(lambda: service.metric(dropped, stream=stream, cause="refused") == 20)
    assert until(lambda: service.metric("millrace_notify_waiting") == 0)
    assert service.metric("millrace_notify_failures_total", cause="refused") >= 4


@pytest.mark.parametrize(
    ("mode", "cause"), [("hang", "silent"), ("close", "closed"), ("refuse", "handshake")]
)
def test_a_bad_receiver_holds_nobody_up(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any], mode: str, cause: str
) -> None:
    good, bad, stream = receivers(), receivers(mode), fresh("db.s")
    log.append([batch(stream, range(5), bad.url, good.url)])
    assert until(lambda: good.numbers(stream) == list(range(5)), 2)
    dropped = "millrace_notify_dropped_total"
    assert until(lambda: service.metric(dropped, stream=stream, cause=cause) == 5)
    # well again, it gets what comes then
    bad.mode = "read"
    log.append([batch(stream, range(5, 8), bad.url, good.url)])
    assert until(lambda: bad.numbers(stream)[-3:] == [5, 6, 7])
    assert good.numbers(stream) == list(range(8))


def test_an_address_that_is_no_websocket_is_dropped(log: KafkaLog, service: Any, batch: Batch) -> None:
    stream = fresh("db.s")
    log.append([batch(stream, range(2), "no address"), batch(stream, range(2, 3), "ftp://127.0.0.1/")])
    dropped = "millrace_notify_dropped_total"
    assert until(lambda: service.metric(dropped, stream=stream, cause="bad_address") == 3)


def test_a_receiver_that_comes_back_in_time_gets_everything(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    log.append([batch(stream, range(5), receiver.url)])
    assert until(lambda: receiver.numbers(stream) == list(range(5)))
    receiver.stop()
    log.append([batch(stream, range(5, 10), receiver.url)])
    receiver.stop = lambda: None
    back = receivers("read", receiver.port)
    assert until(lambda: back.numbers(stream) == list(range(5, 10)))


def test_events_of_a_pausing_stream_wait_for_their_address_even_over_a_kill(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    other, stream, port = receivers(), fresh("db.s"), free_port()
    url = f"ws://127.0.0.1:{port}/notify?key=x"
    log.append([batch(stream, range(10), url, pause_on_failure=True), batch(stream, range(10), other.url)])
    assert until(lambda: other.numbers(stream) == list(range(10)))
    # well beyond the retries of other streams
    time.sleep(2)
    assert service.metric("millrace_notify_waiting") == 10
    service.end(signal.SIGKILL)
    service.start()
    log.append([batch(stream, range(10, 12), url, pause_on_failure=True)])
    time.sleep(0.5)
    late = receivers("read", port)
    assert until(lambda: late.numbers(stream) == list(range(12)))
    assert service.metric("millrace_notify_dropped_total", stream=stream) == 0


def paused(log: KafkaLog) -> dict[int, str]:
    """The streams that wait for an address, as the ``status`` topic says."""
    last = {record.key: record.value for record in replay(log, STATUS.name)}
    found = [status.decode(value) for value in last.values() if value is not None]
    return {one.stream: one.message for one in found if isinstance(one, status.StreamPaused)}


def test_a_stream_is_paused_until_its_address_is_back_even_over_a_kill(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    stream, uid, port = fresh("db.s"), 4711, free_port()
    url = f"ws://127.0.0.1:{port}/notify?key=x"
    entry = StreamEntry(StreamSpec(uid, "db", stream, "", Period(Duration(1, "d"))), "Running", 0, 0)
    log.append([Message(CATALOG.name, key_of(entry), encode(entry))])
    log.append([batch(stream, range(10), url, uid=uid, pause_on_failure=True)])
    assert until(lambda: "cannot be reached" in paused(log).get(uid, ""))
    service.end(signal.SIGKILL)
    service.start()
    time.sleep(1)
    assert uid in paused(log)
    back = receivers("read", port)
    assert until(lambda: back.numbers(stream) == list(range(10)))
    assert until(lambda: uid not in paused(log))
    # and when it is dropped nothing waits for it any more
    back.stop()
    back.stop = lambda: None
    log.append([batch(stream, range(10, 12), url, uid=uid, pause_on_failure=True)])
    assert until(lambda: uid in paused(log))
    log.append([Message(CATALOG.name, key_of(entry), None)])
    assert until(lambda: uid not in paused(log), 20)
    assert until(lambda: service.metric("millrace_notify_dropped_total", stream=stream) == 2, 20)


def test_an_undecodable_message_is_counted_and_the_next_one_delivered(
    log: KafkaLog, service: Any, batch: Batch, receivers: Callable[..., Any]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    before = service.metric("millrace_passed_over_total", topic="notifications")
    good = batch(stream, range(1), receiver.url)
    log.append([good._replace(value=b"{"), good._replace(value=None), good])
    assert until(lambda: receiver.numbers(stream) == [0])
    # its letter is written, and it is counted, before the commit
    assert until(lambda: service.metric("millrace_passed_over_total", topic="notifications") == before + 2)


async def subscribe(
    service: Any,
    stream: str,
    query: str,
    work: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[None]],
) -> None:
    url = f"{service.url}/api/v1/streams/{stream}/events?{query}"
    async with (
        aiohttp.ClientSession(headers={"Authorization": GOOD}) as session,
        session.ws_connect(url) as socket,
    ):
        await work(socket)


async def receive(socket: aiohttp.ClientWebSocketResponse, count: int) -> list[int]:
    """The numbers of the next events, until there are this many."""
    found: list[int] = []
    while len(found) < count:
        message = await socket.receive_json(timeout=15)
        found += [e["n"] for s in message["streams"] for e in s["events"]]
    return found


def test_a_subscriber_gets_its_streams_events(log: KafkaLog, service: Any, batch: Batch) -> None:
    stream = fresh("db.s")

    async def work(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([batch(fresh("db.other"), range(3)), batch(stream, range(3)), batch(stream, range(3, 5))])
        assert await receive(socket, 5) == [0, 1, 2, 3, 4]

    asyncio.run(subscribe(service, stream, "", work))
    assert until(lambda: service.metric("millrace_notify_subscribers") == 0)


def test_a_subscriber_may_filter(log: KafkaLog, service: Any, batch: Batch) -> None:
    stream = fresh("db.s")
    opening = {"eventType": "WINDOW_OPEN", "groupId": "1", "n": 100}
    others = [batch(stream, range(3), group="1"), batch(stream, range(3, 6), group="2")]
    extra = notices.encode(NoticeBatch([Notice(stream, "1", opening)]))

    async def types(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([*others, Message(NOTIFICATIONS.name, f"{stream}/1".encode(), extra)])
        assert await receive(socket, 1) == [100]

    async def group(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([*others, batch(stream, range(6, 7), group="2")])
        assert await receive(socket, 4) == [3, 4, 5, 6]

    asyncio.run(subscribe(service, stream, "event=window_open,ON_TIME", types))
    asyncio.run(subscribe(service, stream, "group=2&event=WINDOW_CLOSE", group))


@pytest.mark.parametrize(
    ("auth", "query", "status", "said"),
    [
        ("", "", 401, "no credentials"),
        ("Basic bm90OnRoaXM=", "", 401, "Authentication failure"),
        ("Digest x", "", 401, "no credentials"),
        (GOOD, "after=0:999999999", 400, "this position does not exist"),
        (GOOD, "event=WINDOW_BREAK", 400, "event=WINDOW_BREAK"),
    ],
)
def test_a_wrong_subscription_is_refused(service: Any, auth: str, query: str, status: int, said: str) -> None:
    headers = {
        "Authorization": auth, "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Version": "13",
    }  # fmt: skip
    answer = httpx.get(f"{service.url}/api/v1/streams/db.s/events?{query}", headers=headers)
    assert answer.status_code == status
    assert said in answer.json()["message"]


def test_an_unknown_stream_is_refused(service: Any) -> None:
    async def run() -> int:
        url = f"{service.url}/api/v1/streams/elsewhere.s/events"
        async with aiohttp.ClientSession(headers={"Authorization": GOOD}) as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(url)
            return caught.value.status

    assert asyncio.run(run()) == 404


def test_a_subscriber_goes_on_behind_a_position_over_a_kill(
    log: KafkaLog, service: Any, batch: Batch
) -> None:
    stream = fresh("db.s")
    at: list[str] = []

    async def first(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([batch(stream, range(5))])
        message = await socket.receive_json(timeout=15)
        assert [e["n"] for s in message["streams"] for e in s["events"]] == [0, 1, 2, 3, 4]
        at.append(message["position"])

    async def then(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([batch(stream, range(300, 305))])
        assert await receive(socket, 300) == list(range(5, 305))

    asyncio.run(subscribe(service, stream, "", first))
    service.end(signal.SIGKILL)
    log.append([batch(stream, range(n, n + 1)) for n in range(5, 300)])
    service.start()
    asyncio.run(subscribe(service, stream, f"after={at[0]}", then))


def test_a_yes_of_the_gateway_is_good_for_a_while(log: KafkaLog, service: Any, gateway: Any) -> None:
    async def nothing(_socket: aiohttp.ClientWebSocketResponse) -> None:
        return

    stream = fresh("db.s")
    asyncio.run(subscribe(service, stream, "", nothing))
    before = gateway.asked
    asyncio.run(subscribe(service, stream, "", nothing))
    assert gateway.asked == before


def test_a_slow_subscriber_hears_what_it_missed_and_slows_nobody(log: KafkaLog, service: Any) -> None:
    stream, padding = fresh("db.s"), "x" * 20_000
    total = 3000

    def filled(n: int) -> Message:
        event: dict[str, object] = {"eventType": "WINDOW_CLOSE", "n": n, "padding": padding}
        value = notices.encode(NoticeBatch([Notice(stream, "0", event)]))
        return Message(NOTIFICATIONS.name, f"{stream}/0".encode(), value)

    async def work(slow: aiohttp.ClientWebSocketResponse) -> None:
        async def quick(socket: aiohttp.ClientWebSocketResponse) -> None:
            for start in range(0, total, 50):
                await asyncio.to_thread(log.append, [filled(n) for n in range(start, start + 50)])
                assert await receive(socket, 50) == list(range(start, start + 50))

        # the quick one reads 60 MB while the slow one reads nothing
        await subscribe(service, stream, "", quick)
        read: list[int] = []
        missed = 0
        while len(read) + missed < total:
            message = await slow.receive_json(timeout=15)
            missed += message.get("missed", 0)
            read += [e["n"] for s in message.get("streams", ()) for e in s["events"]]
        assert missed > 0
        assert read == sorted(read)
        assert len(read) + missed == total

    asyncio.run(subscribe(service, stream, "", work))
    assert service.metric("millrace_notify_missed_total") > 0


def test_without_a_broker_it_is_not_ready_and_still_stops(
    tmp_path: Path, process: Callable[..., Any]
) -> None:
    service = process(f"127.0.0.1:{free_port()}", tmp_path, "http://127.0.0.1:1")
    service.spawn()
    try:
        assert until(lambda: service.health() == 503, 20)
        assert until(lambda: "cannot be reached" in service.ask("/healthz").text, 60)
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.process.kill()
        service.process.wait()
