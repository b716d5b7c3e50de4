"""notify-svc as a process, with a real broker and real WebSocket receivers and subscribers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from aiohttp import web

from millrace.processes import free_port
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import KafkaLog, Message
from millrace_wal.contract import fresh, until

pytestmark = pytest.mark.java

GOOD = "Basic " + base64.b64encode(b"root:taosdata").decode()


class Server:
    """An aiohttp server in a thread of its own."""

    def __init__(self, path: str, method: str, port: int = 0) -> None:
        self.port = port or free_port()
        self._app = web.Application()
        self._app.router.add_route(method, path, self.handle)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(started),))
        self._thread.start()
        assert started.wait(10)

    async def _run(self, started: threading.Event) -> None:
        runner = web.AppRunner(self._app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


class Receiver(Server):
    """An address. ``mode``: read; hang (accept and read nothing); close (read one message, then close);
    refuse (403)."""

    def __init__(self, mode: str = "read", port: int = 0) -> None:
        self.mode = mode
        self.messages: list[dict[str, Any]] = []
        self.connections = 0
        super().__init__("/notify", "GET", port)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/notify?key=x"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.mode == "refuse":
            return web.Response(status=403)
        socket = web.WebSocketResponse(timeout=0.1)
        await socket.prepare(request)
        self.connections += 1
        if self.mode == "hang":
            await asyncio.sleep(60)
        async for message in socket:
            self.messages.append(json.loads(message.data))
            if self.mode == "close":
                await socket.close()
        return socket

    def events(self, stream: str) -> list[dict[str, Any]]:
        streams = [s for m in list(self.messages) for s in m["streams"] if s["streamName"] == stream]
        return [event for s in streams for event in s["events"]]

    def numbers(self, stream: str) -> list[int]:
        return [event["n"] for event in self.events(stream)]


class Gateway(Server):
    """Stands in for the gateway's SQL endpoint: lets root in, as its protocol says."""

    def __init__(self) -> None:
        self.asked = 0
        super().__init__("/rest/sql", "POST")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if request.headers["Authorization"] == GOOD:
            return web.json_response({"code": 0, "column_meta": [], "data": [], "rows": 0})
        return web.json_response({"code": 0x0357, "desc": "Authentication failure"}, status=401)


class Service:
    """The notify-svc process."""

    def __init__(self, broker: str, folder: Path, gateway: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "notify-svc.log"
        self._env = os.environ | {
            "MILLRACE_BROKER": broker,
            "MILLRACE_NOTIFY_PORT": str(self.port),
            "MILLRACE_GATEWAY_URL": gateway,
            "MILLRACE_NOTIFY_GROUP": fresh("notify"),
            "MILLRACE_NOTIFY_RETRIES": "3",
            "MILLRACE_NOTIFY_FIRST_PAUSE": "0.05",
            "MILLRACE_NOTIFY_LONGEST_PAUSE": "0.2",
            "MILLRACE_NOTIFY_ANSWER_SECONDS": "0.5",
            "MILLRACE_NOTIFY_SUBSCRIBER_EVENTS": "100",
            "MILLRACE_STOP_SECONDS": "3",
        }
        self.process: subprocess.Popen[bytes]

    def spawn(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "notify_svc"], env=self._env, stderr=log)

    def start(self) -> None:
        self.spawn()
        assert until(lambda: self.health() == 200, 30), self._log.read_text()

    def health(self) -> int:
        try:
            return httpx.get(self.url + "/healthz").status_code
        except httpx.TransportError:
            return 0

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in httpx.get(self.url + "/metrics").text.splitlines():
            found = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def log(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(broker, "test") as log:
        log.ensure_topics([NOTIFICATIONS])
        yield log


@pytest.fixture(scope="module")
def running(
    broker: str, log: KafkaLog, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    service = Service(broker, tmp_path_factory.mktemp("notify"), f"http://127.0.0.1:{gateway.port}")
    service.start()
    yield service
    service.process.kill()
    service.process.wait()


@pytest.fixture
def service(running: Service) -> Service:
    """The module's process; a test that ended it has started it again."""
    assert running.process.poll() is None
    return running


@pytest.fixture
def receivers() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(mode: str = "read", port: int = 0) -> Receiver:
        made.append(Receiver(mode, port))
        return made[-1]

    yield make
    for receiver in made:
        receiver.stop()


def batch(stream: str, numbers: range, *urls: str, group: str = "0", **more: Any) -> Message:
    """Notices with running numbers, as one message of the log."""
    found = [
        Notice(
            stream,
            group,
            {"eventType": "WINDOW_CLOSE", "triggerId": f"{stream}-{n}", "groupId": group, "n": n},
            urls,
            **more,
        )
        for n in numbers
    ]
    return Message(NOTIFICATIONS.name, f"{stream}/{group}".encode(), notices.encode(NoticeBatch(found)))


def test_events_arrive_as_the_seed_says(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
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
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    log.append([batch(stream, range(n, n + 1), receiver.url) for n in range(3000)])
    assert until(lambda: len(receiver.events(stream)) == 3000)
    assert receiver.numbers(stream) == list(range(3000))
    assert len(receiver.messages) < 1000


def test_an_event_takes_milliseconds(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
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


def test_a_kill_loses_nothing(log: KafkaLog, service: Service, receivers: Callable[..., Receiver]) -> None:
    receiver, stream = receivers(), fresh("db.s")

    def write() -> None:
        for start in range(0, 3000, 5):
            log.append([batch(stream, range(start, start + 5), receiver.url)])
            time.sleep(0.003)

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
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
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
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    nowhere = f"ws://127.0.0.1:{free_port()}/"
    log.append([batch(stream, range(20), nowhere, receiver.url)])
    assert until(lambda: receiver.numbers(stream) == list(range(20)), 2)
    dropped = "millrace_notify_dropped_total"
    assert until(lambda: service.metric(dropped, stream=stream, cause="refused") == 20)
    assert until(lambda: service.metric("millrace_notify_waiting") == 0)
    assert service.metric("millrace_notify_failures_total", cause="refused") >= 4


@pytest.mark.parametrize(
    ("mode", "cause"), [("hang", "silent"), ("close", "closed"), ("refuse", "handshake")]
)
def test_a_bad_receiver_holds_nobody_up(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver], mode: str, cause: str
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


def test_an_address_that_is_no_websocket_is_dropped(log: KafkaLog, service: Service) -> None:
    stream = fresh("db.s")
    log.append([batch(stream, range(2), "no address"), batch(stream, range(2, 3), "ftp://127.0.0.1/")])
    dropped = "millrace_notify_dropped_total"
    assert until(lambda: service.metric(dropped, stream=stream, cause="bad_address") == 3)


def test_a_receiver_that_comes_back_in_time_gets_everything(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    log.append([batch(stream, range(5), receiver.url)])
    assert until(lambda: receiver.numbers(stream) == list(range(5)))
    receiver.stop()
    log.append([batch(stream, range(5, 10), receiver.url)])
    back = Receiver(port=receiver.port)
    try:
        assert until(lambda: back.numbers(stream) == list(range(5, 10)))
    finally:
        back.stop()
        receiver.stop = lambda: None  # type: ignore[method-assign]


def test_events_of_a_pausing_stream_wait_for_their_address_even_over_a_kill(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
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


def test_an_undecodable_message_is_counted_and_the_next_one_delivered(
    log: KafkaLog, service: Service, receivers: Callable[..., Receiver]
) -> None:
    receiver, stream = receivers(), fresh("db.s")
    before = service.metric("millrace_notify_dropped_total", cause="undecodable")
    good = batch(stream, range(1), receiver.url)
    log.append([good._replace(value=b"{"), good._replace(value=None), good])
    assert until(lambda: receiver.numbers(stream) == [0])
    assert service.metric("millrace_notify_dropped_total", cause="undecodable") == before + 2


async def subscribe(
    service: Service,
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
    """The numbers of the next events, until there are so many."""
    found: list[int] = []
    while len(found) < count:
        message = await socket.receive_json(timeout=15)
        found += [e["n"] for s in message["streams"] for e in s["events"]]
    return found


def test_a_subscriber_gets_its_streams_events(log: KafkaLog, service: Service) -> None:
    stream = fresh("db.s")

    async def work(socket: aiohttp.ClientWebSocketResponse) -> None:
        log.append([batch(fresh("db.other"), range(3)), batch(stream, range(3)), batch(stream, range(3, 5))])
        assert await receive(socket, 5) == [0, 1, 2, 3, 4]

    asyncio.run(subscribe(service, stream, "", work))
    assert until(lambda: service.metric("millrace_notify_subscribers") == 0)


def test_a_subscriber_may_filter(log: KafkaLog, service: Service) -> None:
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
        ("", "", 401, "wrong or missing"),
        ("Basic bm90OnRoaXM=", "", 401, "wrong or missing"),
        ("Digest x", "", 401, "wrong or missing"),
        (GOOD, "event=WINDOW_BREAK", 400, "event=WINDOW_BREAK"),
    ],
)
def test_a_wrong_subscription_is_refused(
    service: Service, auth: str, query: str, status: int, said: str
) -> None:
    headers = {
        "Authorization": auth, "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), "Sec-WebSocket-Version": "13",
    }  # fmt: skip
    answer = httpx.get(f"{service.url}/api/v1/streams/db.s/events?{query}", headers=headers)
    assert answer.status_code == status
    assert said in answer.json()["message"]


def test_the_gateway_is_asked_once_a_minute(log: KafkaLog, service: Service, gateway: Gateway) -> None:
    async def nothing(_socket: aiohttp.ClientWebSocketResponse) -> None:
        return

    asyncio.run(subscribe(service, "db.s", "", nothing))
    before = gateway.asked
    asyncio.run(subscribe(service, "db.s", "", nothing))
    assert gateway.asked == before


def test_a_slow_subscriber_hears_what_it_missed_and_slows_nobody(log: KafkaLog, service: Service) -> None:
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


def test_without_a_broker_it_is_not_ready_and_still_stops(tmp_path: Path) -> None:
    service = Service(f"127.0.0.1:{free_port()}", tmp_path, "http://127.0.0.1:1")
    service.spawn()
    try:
        assert until(lambda: service.health() == 503, 20)
        assert until(lambda: "does not answer" in httpx.get(service.url + "/healthz").text)
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.process.kill()
        service.process.wait()
