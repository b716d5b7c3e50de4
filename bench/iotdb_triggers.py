"""One AFTER trigger on ``root.**`` over 100,000 devices: whether it keeps up with 50,000 points a second.

    .venv/bin/python -m bench.iotdb_triggers [devices] [points a second] [seconds] [--out FILE] [--idle N]

A real broker, the gateway and a producer, each a process of its own, and the class in its own as always.
Messages are those of producers: one row of one device, five points. First rows come at that rate; what it
leaves behind says whether the trigger keeps up. Then the same number is written while nobody reads: how fast
the backlog goes is how much more it could take. What it prints are the ``figures`` of a part of
``bench/published/system.json``; the goals are in ``bench/table.py``. ``--idle``: this many further AFTER
triggers, which watch what nobody writes; their threads, memory and CPU are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import msgspec
import psutil
from confluent_kafka import Producer

from millrace.broker import Broker
from millrace.jars import resolve
from millrace.java import find_java
from millrace.processes import RunFolder, free_port, running
from millrace_core.catalog import Record, encode, key_of
from millrace_core.dialect.iotdb.schema import extended, new_child, new_table
from millrace_core.model.device import Device
from millrace_core.model.schema import Database
from millrace_core.wire.topics import CATALOG, TOPICS, wal_topic
from millrace_service import ServiceToken
from millrace_wal import KafkaLog, Log, Message

DB, POINTS, SLICE = "root.plant", 5, 0.1
SLICE_OF_CATALOG = 20_000
NAMES = [f"m{number}" for number in range(POINTS)]
TOPIC = wal_topic(DB, "devices")
CLASS = """
class Highest:
    def on_create(self, attributes):
        self.highest, self.tablets = 0.0, 0
    def state(self):
        return [self.highest, self.tablets]
    def restore(self, state):
        self.highest, self.tablets = state or [0.0, 0]
    def fire(self, tablet):
        self.tablets += 1
        self.highest = max(self.highest, *(float(tablet.values(one).max()) for one in tablet.measurements))
"""


def catalog(log: Log, devices: list[str]) -> None:
    """What IoTDB's statements would have left of this many devices."""
    first, columns = extended(Device(DB, devices[0], table=7), [(name, "DOUBLE") for name in NAMES], None)
    records: list[Record] = [Database(DB), new_table(DB, 7, columns, 0)]
    for name in devices:
        records += [new_child(DB, name, 0, 0), msgspec.structs.replace(first, name=name)]
    log.ensure_topics([*TOPICS, (TOPIC, 4)])
    for at in range(0, len(records), SLICE_OF_CATALOG):
        some = records[at : at + SLICE_OF_CATALOG]
        log.append([Message(CATALOG.name, key_of(one), encode(one)) for one in some])


ROOT = Path(__file__).parents[1]
AUTH, TOKEN = ("root", "root"), secrets.token_hex()
NAME = "trigger bench"


def feed(address: str, count: int, rate: int, seconds: float) -> None:
    """Rows at a steady rate, a slice at a time (a rate of 0: as fast as it goes)."""
    slice_rows = int((rate or 500_000) / POINTS * SLICE)
    devices = [f"{DB}.line{i % 100}.d{i}".encode() for i in range(count)]
    made = random.Random(1)
    rows = [
        msgspec.json.encode({"time": at, **{name: made.random() for name in NAMES}}) for at in range(1000)
    ]
    producer = Producer({
        "bootstrap.servers": address, "acks": "all", "partitioner": "murmur2_random", "linger.ms": 20,
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    total, number, began = int(rate / POINTS * seconds) or int(seconds), 0, time.monotonic()
    while number < total:
        if rate:
            time.sleep(max(0.0, began + number / rate * POINTS - time.monotonic()))
        for i in range(number, min(number + slice_rows, total)):
            producer.produce(TOPIC, rows[i % len(rows)], devices[i % len(devices)])
        number = min(number + slice_rows, total)
        producer.poll(0)
    producer.flush()


class Stand:
    """A broker and a gateway of the bench's own."""

    def __init__(self, folder: Path) -> None:
        java = find_java()
        jars = Path(os.environ.get("MILLRACE_JARS_DIR", ROOT / ".jars"))
        resolve(java, ROOT / "ivy.xml", jars, print)
        self.place = folder / "broker"
        self.broker = Broker(java, jars, self.place, free_port())
        self.broker.start()
        (folder / "triggers").mkdir()
        (folder / "triggers" / "bench_class.py").write_text(CLASS)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._environment = os.environ | {
            "MILLRACE_GATEWAY_PORT": str(port), "MILLRACE_BROKER": self.broker.address,
            "MILLRACE_DATA_DIR": str(folder), "MILLRACE_ACCEPT_SECONDS": "0.2",
            # it is stopped for a while
            "MILLRACE_TRIGGER_CALL_SECONDS": "300", "MILLRACE_SERVICE_TOKEN": TOKEN,
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "api_gateway"], env=self._environment)
        self.answers()

    def answers(self) -> None:
        """Wait until it does."""
        end = time.monotonic() + 300
        while True:
            try:
                if httpx.get(f"{self.url}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def sql(self, text: str) -> None:
        answer = httpx.post(f"{self.url}/rest/v2/nonQuery", json={"sql": text}, auth=AUTH, timeout=120).json()
        if answer["code"] != 200:
            raise SystemExit(answer["message"])

    def fired(self) -> float:
        """Tablets that the trigger has fired for, as the gateway counts them."""
        shown = ServiceToken(TOKEN).header
        answer = httpx.get(f"{self.url}/metrics", headers=shown, timeout=60).raise_for_status()
        for line in answer.text.splitlines():
            if line.startswith("millrace_gateway_trigger_firings_total{"):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def parts(self) -> dict[str, psutil.Process]:
        """Who takes CPU: the gateway, the class's process, the broker."""
        assert self.process is not None
        gateway = psutil.Process(self.process.pid)
        broker = running(RunFolder(self.place), "broker")
        assert broker is not None
        return {"gateway": gateway, "class": gateway.children()[0], "broker": broker}

    def until(self, tablets: float) -> float:
        """Seconds until this many have fired."""
        begin = time.monotonic()
        while self.fired() < tablets:
            if time.monotonic() > begin + 900:
                raise SystemExit("the trigger does not finish")
            time.sleep(0.1)
        return time.monotonic() - begin

    def feeder(self, *arguments: object) -> subprocess.Popen[bytes]:
        given = [self.broker.address, *map(str, arguments)]
        return subprocess.Popen([sys.executable, "-m", "bench.iotdb_triggers", "--feed", *given])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
        self.broker.stop()


def seconds_of(parts: dict[str, psutil.Process]) -> dict[str, float]:
    return {name: sum(part.cpu_times()[:2]) for name, part in parts.items()}


def steady(stand: Stand, count: int, rate: int, seconds: float) -> dict[str, object]:
    """Rows at a rate: how far it is behind at the end, and what it costs."""
    parts, before = stand.parts(), stand.fired()
    used = seconds_of(parts)
    begin = time.monotonic()
    stand.feeder(count, rate, seconds).wait()
    fed = time.monotonic() - begin
    total = int(rate / POINTS * seconds)
    left = total - (stand.fired() - before)
    late = stand.until(before + total)
    now = seconds_of(parts)
    cost = {name: (now[name] - was) / (total * POINTS) * 1e6 for name, was in used.items()}
    cost["total"] = sum(cost.values())
    return {
        "offered_points_per_s": round(total * POINTS / fed), "behind_s": round(late, 1),
        "behind_points": int(left * POINTS),
        "cpu_s_per_million_points": {name: round(value, 2) for name, value in cost.items()},
    }  # fmt: skip


def drained(stand: Stand, count: int, rate: int, seconds: float) -> dict[str, object]:
    """The same number written while the class is stopped: how fast it goes then."""
    before, total = stand.fired(), int(rate / POINTS * seconds)
    process = stand.parts()["class"]
    process.suspend()
    stand.feeder(count, 0, total).wait()
    process.resume()
    held = stand.fired() - before
    took = stand.until(before + total)
    return {"drained_points_per_s": round((total - held) * POINTS / took)}


def idle(stand: Stand, number: int) -> dict[str, object]:
    """What further triggers cost that have nothing to do."""
    assert stand.process is not None
    gateway = psutil.Process(stand.process.pid)
    before = gateway.memory_info().rss, gateway.num_threads()
    for one in range(number):
        stand.sql(f"CREATE STATELESS TRIGGER idle{one} AFTER INSERT ON {DB}.none.* AS 'bench_class:Highest'")
    time.sleep(3)
    used, begin = sum(gateway.cpu_times()[:2]), time.monotonic()
    time.sleep(10)
    share = (sum(gateway.cpu_times()[:2]) - used) / (time.monotonic() - begin)
    classes = [one.memory_full_info().uss for one in gateway.children()]
    return {
        "idle_triggers": number, "idle_gateway_cores": round(share, 3),
        "idle_gateway_mb_each": round((gateway.memory_info().rss - before[0]) / number / 1e6, 2),
        "idle_threads_each": round((gateway.num_threads() - before[1]) / number, 1),
        "class_process_mb": round(sum(classes) / len(classes) / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--feed"]:
        address, count, rate, seconds = sys.argv[2:6]
        feed(address, int(count), int(rate), float(seconds))
        return
    parser = argparse.ArgumentParser(description=NAME)
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--idle", type=int, default=0)
    given = parser.parse_args()
    count, rate, seconds = [*given.numbers, *(100_000, 50_000, 20)[len(given.numbers) :]]
    found: dict[str, object] = {"devices": count, "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as place:
        stand = Stand(Path(place))
        try:
            with KafkaLog(stand.broker.address, "bench") as log:
                catalog(log, [f"{DB}.line{i % 100}.d{i}" for i in range(count)])
            stand.start()
            stand.sql("CREATE STATEFUL TRIGGER bench AFTER INSERT ON root.** AS 'bench_class:Highest'")
            found |= steady(stand, count, rate, seconds)
            found |= drained(stand, count, rate, seconds)
            if given.idle:
                found |= idle(stand, given.idle)
            text = json.dumps({"iotdb_trigger": found}, indent=2)
            print(text)
            if given.out is not None:
                given.out.write_text(text + "\n")
        finally:
            stand.stop()


if __name__ == "__main__":
    main()
