"""``python -m bench.store_rows [--quick]``: what a row costs on its way from a broker into the table store.

calc-svc's own reader and table store in this process and nothing else of it; rows of 1,000 tables, one a
message or a hundred, have been written before. Microseconds of processor time a row, librdkafka's threads
included; and the part of the thread that stores them.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.feed import Feed
from bench.goals import Figure
from bench.peers.jobs import JOBS, PHASES, texts
from bench.report import run
from bench.stage import DB, BenchError, say
from calc_svc.loops.consumer import WalConsumer
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace import broker, jars
from millrace.java import find_java
from millrace.settings import StackSettings, project_root
from millrace.stack import Stack
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.topics import CATALOG, wal_topic
from millrace_wal import KafkaLog, Message

INT = DataType("INT")
DEVICES, PARTITIONS, ROWS, REPEATS = 1_000, 4, 1_000_000, 3
PER_MESSAGE = (1, 100)
FIGURES = tuple(
    Figure(f"{each}_a_message.{part}", "us") for each in PER_MESSAGE for part in ("row", "thread")
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Microseconds a row, by rows a message: the least of several readings of the same rows."""
    rows, repeats = (20_000, 1) if given.quick else (ROWS, REPEATS)
    found: dict[str, Any] = {}
    with _broker() as (address, folder), KafkaLog(address, "bench") as log:
        log.ensure_topics([CATALOG])
        log.append([Message(CATALOG.name, key_of(Database(DB)), encode(Database(DB)))])
        for number, each in enumerate(PER_MESSAGE):
            _write(log, address, f"rows{number}", number + 1, rows, each)
            turns = [
                _read(log, folder / f"{number}.{turn}", f"rows{number}", rows) for turn in range(repeats)
            ]
            row, thread = map(min, zip(*turns, strict=True))
            found[f"{each}_a_message"] = {"row": row, "thread": thread}
            log.delete_topics([wal_topic(DB, f"rows{number}")])  # the next reading is not to read it
            say(f"{each} a message: {found[f'{each}_a_message']}")
    return found


@contextmanager
def _broker() -> Iterator[tuple[str, Path]]:
    """A broker of its own, and a folder that is removed in the end."""
    settings = StackSettings.from_environment()
    folder = settings.data_dir / "bench" / "store-rows"
    shutil.rmtree(folder, ignore_errors=True)
    stack = Stack(StackSettings.on_free_ports(folder, settings.jars_dir))
    jars.resolve(find_java(), project_root() / "ivy.xml", settings.jars_dir, say)
    try:
        stack.start(broker.NAME)
        yield stack.settings.broker, folder
    finally:
        stack.down()
        shutil.rmtree(folder, ignore_errors=True)


def _write(log: KafkaLog, address: str, name: str, uid: int, rows: int, each: int) -> None:
    table = Table(
        DB, name, "super", uid, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("k", INT),)
    )
    records = [table, *(Child(DB, name, f"{name}_{n}", (n,)) for n in range(DEVICES))]
    topic, feed = wal_topic(DB, name), Feed(address)
    log.ensure_topics([(topic, PARTITIONS)])
    log.append([Message(CATALOG.name, key_of(one), encode(one)) for one in records])
    for block in texts(JOBS["tumbling"], 0, rows // DEVICES, each):
        for number in range(DEVICES):
            feed.write(topic, f"{name}_{number}", block[number % PHASES])
        feed.serve()
    feed.done()


def _read(log: KafkaLog, folder: Path, name: str, rows: int) -> tuple[float, float]:
    catalog = CatalogView()
    store = TableStore(catalog, folder, 10 * rows)
    consumer = WalConsumer(log, catalog, store)
    consumer.begin()
    topic = wal_topic(DB, name)
    whole, own = time.process_time(), time.thread_time()
    until = time.monotonic() + 600
    while store.by_topic(topic) is None or store.by_topic(topic).rows.count < rows:  # type: ignore[union-attr]
        consumer.step()
        if time.monotonic() > until:
            raise BenchError(f"{rows} rows of {name} were not stored")
    spent = time.process_time() - whole, time.thread_time() - own
    consumer.stopping.set()
    consumer.end()
    return round(spent[0] / rows * 1e6, 3), round(spent[1] / rows * 1e6, 3)


if __name__ == "__main__":
    run("store_rows", __doc__, measure, FIGURES)
