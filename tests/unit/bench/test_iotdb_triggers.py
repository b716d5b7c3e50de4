"""The bench of triggers, on a gateway with a log in memory: what it asks of a gateway is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from bench.iotdb_triggers import CLASS, DB, NAMES, TOKEN, TOPIC, Stand, catalog
from tests.unit.gateway.conftest import Acknowledger, Calc, gateway_on

from api_gateway.service import gateway_app
from millrace.processes import free_port
from millrace_core.wire.rows.decoder import encode_rows
from millrace_wal import MemoryLog, Message

DEVICES = [f"{DB}.line{number}.d" for number in range(3)]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[tuple[Stand, MemoryLog]]:
    log = MemoryLog()
    catalog(log, DEVICES)
    (tmp_path / "triggers").mkdir()
    (tmp_path / "triggers" / "bench_class.py").write_text(CLASS)
    gateway = gateway_on(log, Calc(), data_dir=tmp_path, service_token=TOKEN)
    acknowledger = Acknowledger(log)
    acknowledger.start()
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(gateway_app(gateway), port=port, log_level="error"))
    serving = threading.Thread(target=server.run)
    serving.start()
    made = Stand.__new__(Stand)
    made.url = f"http://127.0.0.1:{port}"
    made.answers()
    yield made, log
    server.should_exit = True
    serving.join(30)
    acknowledger.stop()


def test_it_counts_what_the_trigger_has_fired_for(stand: tuple[Stand, MemoryLog]) -> None:
    bench, log = stand
    bench.sql("CREATE STATEFUL TRIGGER bench AFTER INSERT ON root.** AS 'bench_class:Highest'")
    assert bench.fired() == 0
    row = {"time": 1, **dict.fromkeys(NAMES, 1.5)}
    log.append([Message(TOPIC, name.encode(), encode_rows([row])) for name in DEVICES])
    bench.until(len(DEVICES))
    assert bench.fired() == len(DEVICES)
