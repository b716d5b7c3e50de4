"""A gateway on a log in memory, with a thread in trigger-svc's place that confirms control records."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
import pyarrow as pa
import pytest
import structlog
from fastapi.testclient import TestClient
from tests.unit.gateway.apps import app_of

from api_gateway.access import login
from api_gateway.answer import Answer
from api_gateway.service import Gateway
from api_gateway.session import Session
from api_gateway.settings import GatewaySettings
from api_gateway.upkeep import registrations, stalls, trimming
from api_gateway.watching import status_board
from millrace_core.errors import MillraceError
from millrace_core.wire import control, status
from millrace_core.wire.topics import CONTROL, STATUS
from millrace_wal import BEGIN, MemoryLog, Message

TOKEN = "a-token-of-these-tests"
KNOWN = {"inside": ["93.184.215.14", "10.0.0.7"], "outside": ["93.184.215.14"], "localhost": ["127.0.0.1"]}
"""The names that the gateway can resolve."""
NOW = 1_767_225_600_000_000_000  # 2026-01-01 00:00:00 UTC


class Acknowledger(threading.Thread):
    """Confirms every control record, as slot 0 of trigger-svc does; not while one holds ``busy``."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(daemon=True)
        self._log = log
        self.busy = threading.Lock()
        self._over = threading.Event()

    def run(self) -> None:
        reader = self._log.reader({CONTROL.name: {0: BEGIN}})
        while not self._over.wait(0.005):
            with self.busy:
                for record in reader.poll(0):
                    said = status.Applied(record.offset)
                    self._log.append([Message(STATUS.name, status.key(said), status.encode(said))])

    def stop(self) -> None:
        self._over.set()
        self.join(5)


def arrow(*columns: tuple[str, str, Any], precision: str = "ms") -> bytes:
    """(name, type, values) as calc-svc sends them."""
    fields = [
        pa.field(name, values.type, metadata={"millrace.type": type_, "millrace.precision": precision})
        for name, type_, values in columns
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        writer.write_batch(pa.record_batch([values for _, _, values in columns], schema=pa.schema(fields)))
    return bytes(sink.getvalue().to_pybytes())


@dataclass
class Calc:
    """What stands in for calc-svc: answers that a test sets, and the requests that came."""

    rows: bytes = field(default_factory=lambda: arrow(("count(*)", "BIGINT", pa.array([0], pa.int64()))))
    columns: list[dict[str, Any]] = field(default_factory=list)
    error: MillraceError | None = None
    away: bool = False
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds that the gateway would wait for each answer."""
    before: Callable[[], None] = lambda: None

    def answers(self, *columns: tuple[str, str, Any], precision: str = "ms") -> None:
        self.rows = arrow(*columns, precision=precision)

    def describes(self, *columns: tuple[str, str]) -> None:
        self.columns = [{"name": name, "type": {"name": type_, "length": None}} for name, type_ in columns]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        self.asked.append((request.url.path, json.loads(request.content)))
        self.waits.append(request.extensions["timeout"]["read"])
        self.before()
        if self.away:
            raise httpx.ConnectError("connection refused")
        if self.error is not None:
            return httpx.Response(self.error.code.value.http, json=self.error.to_wire())
        if request.url.path == "/describe":
            return httpx.Response(200, json={"columns": self.columns})
        return httpx.Response(200, content=self.rows)


@dataclass
class Rig:
    """A gateway and everything around it. Calling it runs SQL."""

    log: MemoryLog
    calc: Calc
    trigger: Acknowledger
    gateway: Gateway

    def __call__(self, sql: str, db: str | None = "d", timezone: str = "UTC") -> Answer:
        return self.gateway.executor.execute(Session("root", db, timezone, NOW), sql)

    def refused(self, sql: str, db: str | None = "d") -> MillraceError:
        """The error of a statement that must be refused; nothing that is durable may change by it."""
        before = self.catalog_records(), self.controls(), self.wal()
        with pytest.raises(MillraceError) as caught:
            self(sql, db)
        assert (self.catalog_records(), self.controls(), self.wal()) == before
        return caught.value

    def restart(self, **changes: Any) -> None:
        """Another gateway on the same log, as after a crash: nothing of the first one's memory is left."""
        self.gateway.stop()
        self.gateway = gateway_on(self.log, self.calc, **changes)
        self.gateway.start()

    def records(self, topic: str) -> list[Any]:
        reader = self.log.reader({topic: dict.fromkeys(self.log.end_offsets(topic), BEGIN)})
        return reader.poll(0, 100_000)

    def catalog_records(self) -> list[Any]:
        return self.records("catalog")

    def controls(self) -> list[control.AnyControl]:
        return [control.decode_control(record.value) for record in self.records("control")]

    def wal(self) -> dict[str, list[Any]]:
        return {topic: self.records(topic) for topic in self.log.topics("wal.")}

    def values(self, topic: str) -> list[tuple[bytes, bytes]]:
        return [(record.key, record.value) for record in self.records(topic)]


@cache
def settings(**changes: Any) -> GatewaySettings:
    fixed = {
        "accept_seconds": 5, "apply_seconds": 5, "service_token": TOKEN, "notify_allow": "127.0.0.0/8",
        "slots": 4, "wal_partitions": 4,
    }  # fmt: skip
    return GatewaySettings(**{**fixed, **changes})


def gateway_on(log: MemoryLog, calc: Calc, **changes: Any) -> Gateway:
    well = httpx.MockTransport(lambda _: httpx.Response(200, json={"detail": {}}))
    found = Gateway(log, settings(**changes), structlog.get_logger(), httpx.MockTransport(calc), well)
    found.context.resolve = lambda host: KNOWN.get(host, [host] if host[0].isdigit() or ":" in host else [])
    return found


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gateway hashes two, and each client one."""
    monkeypatch.setattr(login, "COST", 2)


@pytest.fixture(autouse=True)
def soon_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for the polls under way; records end them at once, however long they may take."""
    for module in (registrations, status_board, trimming):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(stalls, "EVERY", 0.5)


@pytest.fixture
def rig() -> Iterator[Rig]:
    log, calc = MemoryLog(), Calc()
    gateway = gateway_on(log, calc)
    gateway.start()
    trigger = Acknowledger(log)
    trigger.start()
    found = Rig(log, calc, trigger, gateway)
    found("CREATE DATABASE d", None)
    yield found
    found.gateway.stop()
    trigger.stop()


@pytest.fixture
def client(rig: Rig) -> TestClient:
    """HTTP to the same gateway; its lifespan is the rig's."""
    return TestClient(app_of(rig.gateway), raise_server_exceptions=False)
