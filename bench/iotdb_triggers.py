"""One AFTER trigger on ``root.**`` over 100,000 devices: whether it keeps up with 50,000 points a second.

    .venv/bin/python -m bench.iotdb_triggers [devices] [points a second] [seconds]

The gateway, the log in memory and the producer are one process, the class has its own: what is measured is
reading, decoding, matching and firing, without a broker. Messages are those of producers: one row of one
device, five points.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import psutil
import structlog

from api_gateway.insert_triggers.registry import InsertTriggers
from api_gateway.service import Gateway
from api_gateway.session import Session
from api_gateway.settings import GatewaySettings
from millrace_core.catalog import Record, encode, key_of
from millrace_core.dialect.iotdb.schema import extended, new_child, new_table
from millrace_core.model.device import Device
from millrace_core.model.schema import Database
from millrace_core.wire.topics import CATALOG, TOPICS, wal_topic
from millrace_wal import MemoryLog, Message

DB, POINTS, SLICE = "root.plant", 5, 0.1
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


def catalog(log: MemoryLog, devices: list[str]) -> None:
    """What IoTDB's statements would have left of so many devices."""
    first, columns = extended(Device(DB, devices[0], table=7), [(name, "DOUBLE") for name in NAMES], None)
    records: list[Record] = [Database(DB), new_table(DB, 7, columns, 0)]
    for name in devices:
        records += [new_child(DB, name, 0, 0), msgspec.structs.replace(first, name=name)]
    log.ensure_topics([*TOPICS, (TOPIC, 4)])
    log.append([Message(CATALOG.name, key_of(one), encode(one)) for one in records])


def feed(log: MemoryLog, devices: list[str], rate: int, seconds: float) -> int:
    """Rows at a steady rate, a slice at a time; how many."""
    count = int(rate / POINTS * SLICE)
    made = random.Random(1)
    rows = [
        msgspec.json.encode({"time": at, **{name: made.random() for name in NAMES}}) for at in range(1000)
    ]
    began, number = time.monotonic(), 0
    for slice_ in range(int(seconds / SLICE)):
        time.sleep(max(0.0, began + slice_ * SLICE - time.monotonic()))
        log.append(
            [
                Message(TOPIC, devices[(number + i) % len(devices)].encode(), rows[(number + i) % len(rows)])
                for i in range(count)
            ]
        )
        number += count
    print(f"written: {number * POINTS / (time.monotonic() - began):,.0f} points a second")
    return number


def main() -> None:
    given = [int(one) for one in sys.argv[1:4]]
    count, rate, seconds = [*given, *(100_000, 50_000, 20)[len(given) :]]
    devices = [f"{DB}.line{i % 100}.d{i}" for i in range(count)]
    log = MemoryLog()
    catalog(log, devices)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "triggers")
        folder.mkdir()
        (folder / "bench_class.py").write_text(CLASS)
        gateway = Gateway(log, GatewaySettings(data_dir=Path(place)), structlog.get_logger())
        gateway.start()
        session = Session("root", None, "UTC", time.time_ns())
        gateway.iotdb.execute(
            session, "CREATE STATEFUL TRIGGER bench AFTER INSERT ON root.** AS 'bench_class:Highest'"
        )
        triggers = gateway.context.listener
        assert isinstance(triggers, InsertTriggers)
        ours, theirs = psutil.Process(), psutil.Process().children()[0]
        before = [sum(one.cpu_times()[:2]) for one in (ours, theirs)]
        begin = time.monotonic()
        written = feed(log, devices, rate, seconds)
        fed = time.monotonic()
        while (left := triggers.behind(TOPIC, log.end_offsets(TOPIC))) and time.monotonic() < fed + 600:
            print(f"  {left:,} messages behind after {time.monotonic() - fed:.1f} s")
            time.sleep(0.5)
        over = time.monotonic()
        print(f"fired: {written * POINTS / (over - begin):,.0f} points a second, {written:,} tablets")
        print(f"behind when the last was written: {over - fed:.1f} s")
        used = [sum(one.cpu_times()[:2]) - was for one, was in zip((ours, theirs), before, strict=True)]
        print(f"seconds of a core for {written * POINTS:,} points: {used[0]:.1f} gateway, log and producer, "
              f"{used[1]:.1f} the class's process")  # fmt: skip
        gateway.stop()


if __name__ == "__main__":
    main()
