"""Health, metrics, errors; and a service process that starts, answers and stops as it should."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, Counter

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Health, ServiceToken
from millrace_service.web import service_app
from millrace_service.web.serve import server_of

TOKEN = ServiceToken("a-token-of-this-test")


def test_health_tells_ready_or_not() -> None:
    states = [Health(True, {"behind": 0}), Health(False, {"broker": "does not answer"})]
    client = TestClient(service_app("calc-svc", lambda: states.pop(0), token=TOKEN), headers=TOKEN.header)
    well, ill = client.get("/healthz"), client.get("/healthz")
    assert (well.status_code, ill.status_code) == (200, 503)
    assert well.json() == {"service": "calc-svc", "ready": True, "detail": {"behind": 0}}
    assert ill.json()["detail"] == {"broker": "does not answer"}


def test_metrics_are_in_the_exposition_format() -> None:
    registry = CollectorRegistry()
    Counter("millrace_rows_total", "Rows.", ["cause"], registry=registry).labels("late").inc(2)
    app = service_app("x", lambda: Health(True), registry=registry, token=TOKEN)
    answer = TestClient(app).get("/metrics", headers=TOKEN.header)
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'millrace_rows_total{cause="late"} 2.0' in answer.text.splitlines()


def test_an_error_has_its_codes_status() -> None:
    app = service_app("x", lambda: Health(True))

    @app.get("/fail")
    async def fail() -> None:
        raise MillraceError(ErrorCode.UNKNOWN_TABLE, "no table t1")

    answer = TestClient(app).get("/fail")
    assert answer.status_code == 404
    assert answer.json() == {"code": "UNKNOWN_TABLE", "message": "no table t1"}


_SERVICE = """
import asyncio, sys
from contextlib import asynccontextmanager
from millrace_service import Health, configure_logs
from millrace_service.web import serve, service_app

@asynccontextmanager
async def lifespan(app):
    print("started", flush=True)
    yield
    print("stopped", flush=True)

configure_logs("test-svc", "WARNING")
app = service_app("test-svc", lambda: Health(True), lifespan)

@app.get("/slow")
async def slow(seconds: float) -> str:
    print("asked", flush=True)
    await asyncio.sleep(seconds)
    return "done"

serve(app, "127.0.0.1", int(sys.argv[1]), 1)
print("returned", flush=True)
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def service(port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _SERVICE, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz")
            break
        except httpx.TransportError:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly(service: subprocess.Popen[str], number: signal.Signals) -> None:
    service.send_signal(number)
    out, err = service.communicate(timeout=10)
    assert service.returncode == 0
    assert out.split() == ["started", "stopped", "returned"]
    assert err == ""


def test_a_stop_waits_for_requests_but_not_for_ever(service: subprocess.Popen[str], port: int) -> None:
    assert service.stdout is not None
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"GET /slow?seconds=60 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert [service.stdout.readline() for _ in range(2)] == ["started\n", "asked\n"]
        start = time.monotonic()
        service.send_signal(signal.SIGTERM)
        out, _ = service.communicate(timeout=20)
    assert service.returncode == 0
    assert "stopped" in out
    assert 0.5 < time.monotonic() - start < 8


def test_a_taken_port_ends_the_process(service: subprocess.Popen[str], port: int) -> None:
    second = subprocess.run(
        [sys.executable, "-c", _SERVICE, str(port)], capture_output=True, text=True, timeout=30
    )
    assert second.returncode != 0
    assert "address already in use" in second.stderr
    assert service.poll() is None


def test_a_server_is_told_to_end_and_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[server_of.__module__], "TICK", 10_000.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = server_of(FastAPI(), "127.0.0.1", 0)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()
