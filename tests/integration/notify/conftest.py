"""notify-svc as a process, on a real broker, with real WebSocket receivers."""

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from millrace.processes import free_port
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS
from millrace_wal import KafkaLog, Message
from millrace_wal.contract.log import fresh, until

TOKEN = "a-token-of-these-tests"
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
    """Stands in for the gateway: root may subscribe to every stream of the database ``db``."""

    def __init__(self) -> None:
        self.asked = 0
        super().__init__("/api/v1/streams/{name}/subscription", "GET")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if request.headers["Authorization"] != GOOD:
            error = {"code": "AUTHENTICATION", "message": "Authentication failure"}
            return web.json_response(error, status=401)
        name = request.match_info["name"]
        if not name.startswith("db."):
            error = {"code": "UNKNOWN_STREAM", "message": f"the stream {name} does not exist"}
            return web.json_response(error, status=404)
        return web.Response(status=204)


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
            "MILLRACE_NOTIFY_ACCESS_SECONDS": "60",
            "MILLRACE_NOTIFY_GROUP": fresh("notify"),
            "MILLRACE_NOTIFY_RETRIES": "3",
            "MILLRACE_NOTIFY_FIRST_PAUSE": "0.05",
            "MILLRACE_NOTIFY_LONGEST_PAUSE": "0.2",
            "MILLRACE_NOTIFY_ANSWER_SECONDS": "0.5",
            "MILLRACE_NOTIFY_SUBSCRIBER_EVENTS": "100",
            "MILLRACE_STOP_SECONDS": "3",
            "MILLRACE_SERVICE_TOKEN": TOKEN,
            "MILLRACE_NOTIFY_ALLOW": "127.0.0.0/8, ::1/128",
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
            return self.ask("/healthz").status_code
        except httpx.TransportError:
            return 0

    def ask(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.ask("/metrics").text.splitlines():
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
        log.ensure_topics([NOTIFICATIONS, CATALOG, STATUS])
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


def make_batch(
    stream: str, numbers: range, *urls: str, group: str = "0", uid: int = 0, **more: Any
) -> Message:
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
    value = notices.encode(NoticeBatch(found, uid))
    return Message(NOTIFICATIONS.name, f"{stream}/{group}".encode(), value)


@pytest.fixture(scope="session")
def batch() -> Callable[..., Message]:
    """For the tests beside this module, which they cannot import."""
    return make_batch


@pytest.fixture(scope="session")
def process() -> type[Service]:
    """For a process of a test's own."""
    return Service
