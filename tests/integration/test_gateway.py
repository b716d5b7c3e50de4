"""api-gateway as a process on a real broker, with the real calc-svc; its clients are TDengine's own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import taosrest
from taosrest.errors import ConnectError, HTTPError

from millrace.java import Java
from millrace.processes import free_port
from millrace_core.trigger.types import registry  # noqa: F401 - records of streams are read by its types
from millrace_core.wire import control, operations, status
from millrace_core.wire.topics import CONTROL, STATUS
from millrace_service.web.patience import CONNECTIONS
from millrace_wal import KafkaLog, Message, replay

pytestmark = pytest.mark.java

START_SECONDS = 300.0  # Spark, on a machine that may have much else to do


def eventually(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


class Service:
    """One service's process."""

    def __init__(self, module: str, port: int, variables: dict[str, str], folder: Path) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self._module = module
        self._environment = os.environ | variables
        self._file = folder / f"{module}.log"

    def start(self) -> None:
        with self._file.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self._module], env=self._environment, stdout=sink, stderr=sink
            )
        try:
            eventually(self._ready, START_SECONDS)
        except BaseException:
            self.kill()  # no fixture has it yet, so nobody else would
            raise

    def _ready(self) -> bool:
        assert self.process.poll() is None, self._file.read_text()[-4000:]
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return self._file.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture(scope="module")
def variables(broker: str, java: Java, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    ports = {name: str(free_port()) for name in ("GATEWAY", "CALC", "NOTIFY", "TRIGGER")}
    return {f"MILLRACE_{name}_PORT": port for name, port in ports.items()} | {
        "MILLRACE_BROKER": broker, "MILLRACE_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        # trigger-svc does not run here, and is not to be told as stalled while other tests take their time
        "MILLRACE_ACCEPT_SECONDS": "0.3", "MILLRACE_STALL_SECONDS": "600",
        "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip


@pytest.fixture(scope="module")
def gateway(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    port = int(variables["MILLRACE_GATEWAY_PORT"])
    service = Service("api_gateway", port, variables, tmp_path_factory.mktemp("gateway"))
    service.start()
    yield service
    assert service.stop() == 0, service.log()[-4000:]


@pytest.fixture(scope="module")
def calc(
    variables: dict[str, str], gateway: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    port = int(variables["MILLRACE_CALC_PORT"])
    service = Service("calc_svc", port, variables, tmp_path_factory.mktemp("calc"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def log(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(broker, "test-gateway") as found:
        yield found


def connect(gateway: Service, **more: Any) -> Any:
    return taosrest.connect(**{"url": gateway.url, "user": "root", "password": "taosdata"} | more)


def test_taospy_defines_writes_and_is_refused(gateway: Service, log: KafkaLog) -> None:
    connection = connect(gateway)
    assert connection.server_info.startswith("3.3.7.0")
    assert connection.execute("CREATE DATABASE IF NOT EXISTS tp PRECISION 'us'") == 0
    assert connection.execute("CREATE STABLE tp.m (ts TIMESTAMP, v FLOAT) TAGS (site INT)", req_id=17) == 0
    inside = connect(gateway, database="tp")
    assert inside.execute("INSERT INTO m1 USING m TAGS (1) VALUES ('2026-01-01 00:00:01', 1.5) (now, 2)") == 2
    shown = inside.query("SHOW TABLES")
    assert (shown.fields, shown.data, shown.rows) == (
        [{"name": "table_name", "type": "VARCHAR", "bytes": 192}], [["m1"]], 1,
    )  # fmt: skip
    with pytest.raises(ConnectError) as caught:
        inside.execute("INSERT INTO m1 VALUES (now, 'abc')")
    assert caught.value.errno == 0x2605
    assert "line 1, column 29" in str(caught.value)
    with pytest.raises(HTTPError) as denied:
        connect(gateway, password="wrong").execute("SHOW DATABASES")
    assert denied.value.status_code == 401
    messages = [(record.key, record.value) for record in replay(log, "wal.tp.m")]
    assert messages[0] == (b"m1", operations.encode_operation(operations.Register({"site": 1})))
    assert len(messages) == 2


def test_taospy_reads_what_it_wrote_at_once(gateway: Service, calc: Service) -> None:
    cursor = connect(gateway, timezone=UTC).cursor()
    cursor.execute("CREATE DATABASE tq")
    cursor.execute(
        "CREATE STABLE tq.m (ts TIMESTAMP, f FLOAT, u BIGINT UNSIGNED, b BOOL, s NCHAR(8)) TAGS (site INT)"
    )
    for number in range(1, 4):
        assert cursor.execute(
            f"INSERT INTO tq.m1 USING tq.m TAGS (7) VALUES ('2026-01-01 00:00:0{number}', 1.1, "
            "18446744073709551615, true, '温')"
        ) == 1  # fmt: skip
        cursor.execute("SELECT count(*) FROM tq.m")
        assert cursor.fetchall() == [[number]]
    cursor.execute("SELECT ts, f, u, b, s, site, tbname FROM tq.m ORDER BY ts LIMIT 1")
    assert cursor.fetchall() == [
        [datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), 1.1, 2**64 - 1, True, "温", 7, "m1"]
    ]
    assert [column[1] for column in cursor.description] == [
        "TIMESTAMP", "FLOAT", "BIGINT UNSIGNED", "BOOL", "NCHAR", "INT", "VARCHAR",
    ]  # fmt: skip
    assert cursor.execute("DELETE FROM tq.m WHERE ts < '2026-01-01 00:00:03'") == 2
    cursor.execute("SELECT f FROM tq.m1")
    assert cursor.fetchall() == [[1.1]]
    with pytest.raises(ConnectError) as caught:
        cursor.execute("SELECT absent FROM tq.m")
    assert caught.value.errno == 0x2602
    assert "line 1, column 8" in str(caught.value)


def test_a_dropped_and_remade_table_holds_nothing_of_the_old_one(
    gateway: Service, calc: Service, log: KafkaLog
) -> None:
    connection = connect(gateway)
    connection.execute("CREATE DATABASE tr")
    confirmed = -1
    for value in (1, 2):
        connection.execute("CREATE TABLE tr.one (ts TIMESTAMP, v INT)")
        connection.execute(f"INSERT INTO tr.one VALUES (1767225601000, {value})")
        assert connection.query("SELECT v FROM tr.one").data == [[value]]
        connection.execute("DROP TABLE tr.one")
        confirmed = log.end_offsets(CONTROL.name)[0] - 1
        confirm(log, confirmed)
        with pytest.raises(ConnectError):
            connection.query("SELECT v FROM tr.one")
        eventually(lambda: log.begin_offsets("wal.tr.one") == log.end_offsets("wal.tr.one"), 10)


def confirm(log: KafkaLog, number: int) -> None:
    """Say what trigger-svc says once a control record is in force; it does not run here."""
    said = status.Applied(number)
    log.append([Message(STATUS.name, status.key(said), status.encode(said))])


def test_a_stream_survives_a_killed_gateway(gateway: Service, calc: Service, log: KafkaLog) -> None:
    connection = connect(gateway)
    connection.execute("CREATE DATABASE ts")
    connection.execute("CREATE STABLE ts.m (ts TIMESTAMP, v INT) TAGS (site INT)")
    connection.execute("CREATE TABLE ts.m1 USING ts.m TAGS (1)")
    with pytest.raises(ConnectError) as caught:
        connection.execute(
            "CREATE STREAM ts.s1 INTERVAL(10s) SLIDING(10s) FROM ts.m PARTITION BY site INTO ts.o\n"
            "AS SELECT _twstart, max(w) FROM %%trows"
        )
    assert "line 2, column 25" in str(caught.value)
    assert connection.query("SHOW ts.STABLES").data == [["m"]]
    connection.execute(
        "CREATE STREAM ts.s1 INTERVAL(10s) SLIDING(10s) FROM ts.m PARTITION BY site INTO ts.o "
        "AS SELECT _twstart AS at, count(*), avg(v) AS mean FROM %%trows"
    )
    described = [row[:2] for row in connection.query("DESCRIBE ts.o").data]
    assert described == [["at", "TIMESTAMP"], ["count(*)", "BIGINT"], ["mean", "DOUBLE"], ["site", "INT"]]
    assert connection.query("SHOW ts.STREAMS").data == [["s1", "Init", ""]]
    records = [control.decode_control(record.value or b"") for record in replay(log, CONTROL.name)]
    defined = [record for record in records if isinstance(record, control.DefineStream)]
    # other tests define streams on the same broker
    assert [record.spec.full_name for record in defined if record.spec.db == "ts"] == ["ts.s1"]
    assert isinstance(records[-1], control.KnowChildren)
    confirm(log, len(records) - 1)
    running = [["s1", "Running", ""]]
    eventually(lambda: bool(connection.query("SHOW ts.STREAMS").data == running), 10)
    gateway.kill()
    gateway.start()
    assert connection.query("SHOW ts.STREAMS").data == running
    assert connection.query("SELECT count(*) FROM ts.o").data == [[0]]
    assert log.end_offsets(CONTROL.name)[0] == len(records)


def test_what_a_producer_wrote_becomes_a_child_table(gateway: Service, calc: Service, log: KafkaLog) -> None:
    connection = connect(gateway)
    connection.execute("CREATE DATABASE tk")
    connection.execute("CREATE STABLE tk.m (ts TIMESTAMP, v INT) TAGS (site INT)")
    log.append([Message("wal.tk.m", b"k1", b'{"tags":{"site":9},"rows":[{"ts":1,"v":7}]}')])
    eventually(lambda: bool(connection.query("SHOW tk.TABLES").data == [["k1"]]), 20)
    assert connection.query("SHOW TAGS FROM tk.k1").data[0][3:] == ["site", "INT", "9"]


def test_logs_are_json_lines(gateway: Service) -> None:
    lines = [json.loads(line) for line in gateway.log().splitlines()]
    assert {"time", "level", "service", "event"} <= set(lines[0])
    assert any(line["event"] == "ready" for line in lines)


def test_connections_are_counted_and_clients_that_are_slow_lose_theirs(gateway: Service) -> None:
    with ExitStack() as held:
        slow = [
            held.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=60))
            for _ in range(CONNECTIONS)
        ]
        for begun, one in enumerate(slow):
            one.sendall(b"POST /rest/sql HTTP/1.1\r\nhost: x\r\n" if begun % 2 else b"")
        eventually(lambda: httpx.get(f"{gateway.url}/docs").status_code == 503, 10)
        assert all(cut_off(one) for one in slow)
    eventually(lambda: httpx.get(f"{gateway.url}/docs").status_code == 200, 10)
    assert connect(gateway).query("SELECT server_version()").data


def cut_off(client: socket.socket) -> bool:
    """Whether the server closes the connection without an answer; waits for it."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
