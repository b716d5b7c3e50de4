"""A whole deployment in one process: the gateway, calc-svc's door and store, the slots of trigger-svc, on a
log in memory, with DuckDB in Spark's place. Nothing calculates results of streams.

Clock and uids are always the same, so that two of them that are told the same say the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import httpx
import structlog
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.unit.calc.conftest import DuckEngine
from tests.unit.gateway.conftest import KNOWN, NOW, TOKEN, settings

from api_gateway import context as gateway_context
from api_gateway.iotdb.login import IotdbLogins
from api_gateway.iotdb_rpc.calls import Calls
from api_gateway.iotdb_rpc.session import Client
from api_gateway.service import Gateway, gateway_app
from api_gateway.session import Session
from calc_svc.http.app import calc_app
from calc_svc.jobs.compute import Calculator
from calc_svc.loops.consumer import WalConsumer
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import evaluate_batch
from millrace_core.wire import status
from millrace_core.wire.topics import CONTROL, REGROUP, STATUS, TOPICS, WAL_PREFIX, slot_for
from millrace_service import Health, Life, ServiceToken
from millrace_wal import BEGIN, MemoryLog, Message

SLOTS = 2
SECONDS = 20.0
ROOT = ("root", "taosdata")


class Slots(threading.Thread):
    """trigger-svc: each message that it reads goes to its slots, what they send goes to the log, and control
    records are acknowledged."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(daemon=True)
        self._log = log
        self._states: dict[int, bytes] = {}
        self._over = threading.Event()
        self.at: dict[str, dict[int, int]] = {}

    def run(self) -> None:
        reader = self._log.reader({CONTROL.name: {0: BEGIN}})
        read: set[str] = set()
        while not self._over.is_set():
            for topic in {REGROUP.name, *self._log.topics(WAL_PREFIX)} - read:
                reader.add(topic, dict.fromkeys(self._log.end_offsets(topic), BEGIN))
                read.add(topic)
            records = reader.poll(0.01, 1000)
            for record in sorted(records, key=lambda one: one.topic != CONTROL.name):
                self._take(record)
            self.at = reader.positions()

    def _take(self, record: Any) -> None:
        message = (record.topic, record.partition, record.offset, record.timestamp, record.key, record.value)
        slot = slot_for(record.topic, record.key, SLOTS)
        for number in range(SLOTS) if slot is None else [slot]:
            judged = evaluate_batch(self._states.get(number), number, SLOTS, Messages.of([message]))
            self._states[number] = judged.state
            self._log.append([Message(*one) for one in judged.sent])
        if record.topic == CONTROL.name:
            said = status.Applied(record.offset)
            self._log.append([Message(STATUS.name, status.key(said), status.encode(said))])

    def stop(self) -> None:
        self._over.set()
        self.join(10)


class Whole:
    """Statements are root's unless a client asks."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog(lambda: NOW // 1_000_000)
        self.log.ensure_topics(TOPICS)
        self._view = CatalogView()
        self._store = TableStore(self._view, folder, 1_000_000)
        calculator = Calculator(DuckEngine(), self._view, self._store, 10_000)  # type: ignore[arg-type]
        self._life = Life(WalConsumer(self.log, self._view, self._store), structlog.get_logger(), pause=0.01)
        self.calc = TestClient(calc_app(calculator, self._store, Health, _idle, ServiceToken(TOKEN)))
        well = httpx.MockTransport(lambda _: httpx.Response(200, json={"detail": {}}))
        self.gateway = Gateway(
            self.log, settings(slots=SLOTS, cq_threads=1), structlog.get_logger(),
            httpx.MockTransport(self._ask_calc), well,
        )  # fmt: skip
        self.gateway.context.resolve = lambda host: KNOWN.get(host, [host] if host[:1].isdigit() else [])
        self._slots = Slots(self.log)
        self.client = TestClient(gateway_app(self.gateway), raise_server_exceptions=False)

    def start(self) -> None:
        self._life.start()
        self._slots.start()
        self.gateway.start()

    def stop(self) -> None:
        self.gateway.stop()
        self._slots.stop()
        self._life.stop()

    def _ask_calc(self, request: httpx.Request) -> httpx.Response:
        found = self.calc.request(
            request.method, request.url.path, content=request.content, headers=dict(request.headers)
        )
        return httpx.Response(found.status_code, content=found.content)

    def root(self, sql: str) -> Any:
        return self.gateway.executor.execute(Session("root", None, "UTC", NOW), sql)

    def iotdb(self, sql: str) -> Any:
        return self.gateway.iotdb.execute(Session("root", None, "UTC", NOW), sql)

    def tell(self, said: status.AnyStatus) -> None:
        """As a service would leave it."""
        self.log.append([Message(STATUS.name, status.key(said), status.encode(said))])

    def settle(self) -> None:
        """Until everybody has read everything."""
        until = time.monotonic() + SECONDS
        while not self._settled():
            assert time.monotonic() < until, "it did not come to rest"
            time.sleep(0.002)

    def _settled(self) -> bool:
        log = self.log
        wal = {
            topic: log.end_offsets(topic) for topic in (CONTROL.name, REGROUP.name, *log.topics(WAL_PREFIX))
        }
        read = self._slots.at
        if any(end > read.get(topic, {}).get(p, 0) for topic, ends in wal.items() for p, end in ends.items()):
            return False
        if self.gateway.context.board.applied + 1 < log.end_offsets(CONTROL.name)[0]:
            return False
        return self._view.status_position >= log.end_offsets(STATUS.name)[0]


@asynccontextmanager
async def _idle(_app: FastAPI) -> Any:
    yield


@contextmanager
def whole() -> Iterator[Whole]:
    """One that runs."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "time_ns", lambda: NOW))
        stack.enter_context(patch.object(gateway_context.secrets, "randbits", lambda _: 0))
        folder = stack.enter_context(TemporaryDirectory())
        made = Whole(Path(folder))
        made.start()
        stack.callback(made.stop)
        yield made


Ask = Callable[[Whole, tuple[str, str]], Any]
"""A request of a user."""


def sql(text: str, db: str = "", **query: str) -> Ask:
    path = f"/rest/sql/{db}" if db else "/rest/sql"
    return lambda whole, who: whole.client.post(path, content=text.encode(), params=query, auth=who)


def iotdb(path: str, **body: Any) -> Ask:
    return lambda whole, who: whole.client.post(f"/rest/v2/{path}", json=body, auth=who)


def api(method: str, path: str = "", **more: Any) -> Ask:
    return lambda whole, who: whole.client.request(method, f"/api/v1/streams{path}", auth=who, **more)


def rpc(call: str, *given: Any) -> Ask:
    """A call of IoTDB's RPC, by a session of its own. ``given``: what follows the number of the session, or
    the one request that holds it."""

    def ask(whole: Whole, who: tuple[str, str]) -> Any:
        client = Client(IotdbLogins(whole.gateway.logins, "taosdata"), "", "UTC")
        number = client.log_in(*who, None)
        method = getattr(Calls(whole.gateway.iotdb, client), call)
        if len(given) == 1 and hasattr(given[0], "sessionId"):
            request = copy(given[0])
            request.sessionId = number
            return method(request)
        return method(number, *given)

    return ask


def told(answer: Any) -> Any:
    """All that a client sees."""
    if isinstance(answer, httpx.Response):
        return answer.status_code, dict(answer.headers), answer.content
    return repr(answer)
