"""kill -9 of the gateway, of a trigger's process and of the broker, while rows are written: no firing AFTER
INSERT is lost, a stateful class counts each row once, and nothing that was refused BEFORE INSERT is stored.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import psutil
import pytest

from millrace.broker import Broker
from millrace.java import Java
from millrace.processes import RunFolder, free_port, kill
from millrace_core.catalog import Catalog
from millrace_core.dialect.iotdb.schema import TABLE
from millrace_core.errors import MillraceError
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_core.wire.topics import CATALOG
from millrace_wal import KafkaLog, Message, replay

pytestmark = pytest.mark.java

TOPIC = "wal.root-2ep.devices"
AUTH = ("root", "root")
CLASSES = """
    class Seen:
        '''Marks each row that it is fired for, with how many it has counted.'''
        def on_create(self, attributes):
            self.rows = 0
        def state(self):
            return self.rows
        def restore(self, state):
            self.rows = state or 0
        def fire(self, tablet):
            for at in tablet.times:
                self.rows += 1
                tablet.write(tablet.device + "_seen.n", int(at), self.rows)

    class Guard:
        def failure_strategy(self):
            return "PESSIMISTIC"
        def fire(self, tablet):
            return not (tablet.values("v") < 0).any()
"""


def until(true: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


class Plant:
    """A broker and a gateway of the test's own, to be killed."""

    def __init__(self, java: Java, jars: Path, folder: Path) -> None:
        self.place = folder / "broker"
        self.broker = Broker(java, jars, self.place, free_port())
        self.broker.start()
        (folder / "data" / "triggers").mkdir(parents=True)
        (folder / "data" / "triggers" / "classes.py").write_text(dedent(CLASSES))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._environment = os.environ | {
            "MILLRACE_GATEWAY_PORT": str(port), "MILLRACE_BROKER": self.broker.address,
            "MILLRACE_DATA_DIR": str(folder / "data"), "MILLRACE_ACCEPT_SECONDS": "0.2",
            "MILLRACE_TRIGGER_WAIT_SECONDS": "60",
        }  # fmt: skip
        self._file = folder / "gateway.log"
        self.start()

    def start(self) -> None:
        with self._file.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api_gateway"], env=self._environment, stdout=sink, stderr=sink
            )
        until(self._answers, 120)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._file.read_text()[-3000:]
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        return False

    def kill(self) -> list[psutil.Process]:
        """kill -9 of the gateway; the processes of its triggers."""
        theirs = self.trigger_processes()
        self._process.kill()
        self._process.wait()
        return theirs

    def trigger_processes(self) -> list[psutil.Process]:
        return psutil.Process(self._process.pid).children()

    def do(self, sql: str) -> dict[str, Any]:
        answer = httpx.post(f"{self.url}/rest/v2/nonQuery", json={"sql": sql}, auth=AUTH, timeout=90)
        found: dict[str, Any] = answer.json()
        return found

    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """(device, row without NULLs) of all that is in the log, in order of each device."""
        catalog = Catalog()
        with KafkaLog(self.broker.address, "test-triggers") as log:
            for told in replay(log, CATALOG.name):
                catalog.apply(told.key or b"", told.value)
            records = list(replay(log, TOPIC))
        decoded = RowDecoder(catalog.tables["root.p", TABLE]).decode([one.value or b"" for one in records])
        assert not decoded.bad
        found = []
        for number, row in zip(decoded.message.tolist(), decoded.frame.to_dicts(), strict=True):
            device = (records[number].key or b"").decode()
            cells = {name: cell for name, cell in row.items() if cell is not None}
            found.append((device, cells | {"time": int(row["time"])}))
        return found

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.broker.stop()


@pytest.fixture
def plant(java: Java, jars: Path, tmp_path: Path) -> Iterator[Plant]:
    made = Plant(java, jars, tmp_path)
    try:
        for sql in ("CREATE DATABASE root.p", "INSERT INTO root.p.d0(time, v) VALUES (0, 0)",
                    "INSERT INTO root.p.d1(time, v) VALUES (0, 0)"):  # fmt: skip
            assert made.do(sql)["code"] == 200
        yield made
    finally:
        made.stop()


class Writer(threading.Thread):
    """Writes rows until it is stopped: requests to the gateway, of which it remembers the answers."""

    def __init__(self, plant: Plant, device: str, value: Callable[[int], int]) -> None:
        super().__init__(daemon=True)
        self._plant, self._device, self._value = plant, device, value
        self.over = threading.Event()
        self.answers: dict[int, int] = {}
        """Time of the row -> code."""

    def run(self) -> None:
        at = 0
        while not self.over.is_set():
            at += 1
            sql = f"INSERT INTO {self._device}(time, v) VALUES ({at}, {self._value(at)})"
            try:
                self.answers[at] = self._plant.do(sql)["code"]
            except (httpx.HTTPError, ValueError):
                self.over.wait(0.1)  # the gateway is away: whether it is stored nobody knows

    def settled(self, count: int) -> None:
        """Wait until this many more requests have been answered."""
        goal = len(self.answers) + count
        until(lambda: len(self.answers) >= goal, 120)

    def stop(self) -> None:
        self.over.set()
        self.join(120)


def producer(plant: Plant, over: threading.Event) -> None:
    """Rows of a Kafka producer, which go past the gateway."""
    at = 1_000_000
    with KafkaLog(plant.broker.address, "test-producer") as log:
        while not over.is_set():
            at += 1
            with suppress(MillraceError):  # while the broker is away
                log.append([Message(TOPIC, b"root.p.d1", json.dumps({"time": at, "v": 1.0}).encode())])
            over.wait(0.02)


def test_no_after_firing_is_lost_and_each_row_counts_once(plant: Plant) -> None:
    made = plant.do("CREATE STATEFUL TRIGGER seen AFTER INSERT ON root.p.*.v AS 'classes:Seen'")
    assert made["code"] == 200, made
    writer, over = Writer(plant, "root.p.d0", lambda at: at), threading.Event()
    beside = threading.Thread(target=producer, args=(plant, over), daemon=True)
    writer.start()
    beside.start()
    writer.settled(10)
    for process in plant.trigger_processes():
        process.kill()
    writer.settled(10)
    for _ in range(2):
        left = plant.kill()
        plant.start()
        until(lambda left=left: not any(one.is_running() for one in left))  # type: ignore[misc]
        writer.settled(10)
    kill(RunFolder(plant.place), "broker")
    time.sleep(1)
    plant.broker.start()
    writer.settled(10)
    over.set()
    beside.join()
    writer.stop()

    def states() -> tuple[set[tuple[str, int]], dict[tuple[str, int], int], int]:
        rows = plant.rows()
        written = {(device, row["time"]) for device, row in rows if "_seen" not in device and row["time"]}
        marks = {(device.removesuffix("_seen"), row["time"]): row["n"] for device, row in rows if "n" in row}
        return written, marks, max(marks.values(), default=0)

    until(lambda: states()[0] <= states()[1].keys(), 120)
    written, marks, most = states()
    assert written == marks.keys()
    stored = [(device, row["time"]) for device, row in plant.rows() if "_seen" not in device and row["time"]]
    assert most == len(stored), "each row in the log counts once, whatever was fired twice"
    assert {("root.p.d0", at) for at, code in writer.answers.items() if code == 200} <= written


def test_nothing_of_a_write_refused_before_is_stored(plant: Plant) -> None:
    made = plant.do("CREATE STATELESS TRIGGER guard BEFORE INSERT ON root.p.*.v AS 'classes:Guard'")
    assert made["code"] == 200, made
    writers = [Writer(plant, f"root.p.d{n}", lambda at: -at if at % 2 else at) for n in range(2)]
    for one in writers:
        one.start()
    writers[0].settled(10)
    for process in plant.trigger_processes():
        process.kill()
    writers[0].settled(10)
    for _ in range(2):
        plant.kill()
        plant.start()
        writers[0].settled(10)
    for one in writers:
        one.stop()
    rows = plant.rows()
    assert min(row["v"] for _, row in rows) >= 0
    stored = {(device, row["time"]) for device, row in rows}
    for number, one in enumerate(writers):
        good = {at for at, code in one.answers.items() if code == 200}
        assert good and all(at % 2 == 0 for at in good)
        assert {(f"root.p.d{number}", at) for at in good} <= stored
        assert {code for at, code in one.answers.items() if at % 2} == {1302}
