"""The poison matrix on the real stack: one dead letter for each message, and nothing else changes.

Rows of two tables come all the while; what four streams make of them is computed here as well.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.wire import dead
from millrace_core.wire.topics import DEAD_LETTERS, TOPICS, buried_by, wal_topic
from millrace_wal import KafkaLog, Message, replay

from ..poison import INNER, MALFORMED, Cell, cells, malformed_cells, wal_cells

pytestmark = pytest.mark.stack
DB = "poisoned"
METERS, PLAIN = wal_topic(DB, "meters"), wal_topic(DB, "plain")
CHILDREN = ("m1", "m2", "m3")
BEGIN = 1_767_225_600_000
STEP, WINDOW = 100, 1_000
"""Milliseconds of event time from one row of a table to the next, and of a window."""
STREAMS = {
    "by_child": "meters PARTITION BY tbname", "by_site": "meters PARTITION BY site",
    "of_all": "meters", "of_plain": "plain",
}  # fmt: skip
Place = tuple[str, int, int]


class Load:
    """Writes a row of each table every 20 ms, as a producer does."""

    def __init__(self, log: KafkaLog) -> None:
        self._log, self._stop = log, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        while self.count % (WINDOW // STEP):  # whole windows, and a row that closes the last one
            self._next()
        self._write(self.count)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self._next()

    def _next(self) -> None:
        self._write(self.count)
        self.count += 1

    def _write(self, number: int) -> None:
        value = msgspec.json.encode({"ts": BEGIN + number * STEP, "v": number})
        rows = [Message(METERS, child.encode(), value) for child in CHILDREN]
        self._log.append([*rows, Message(PLAIN, None, value)])


def all_cells() -> Iterator[Cell]:
    row = msgspec.json.encode({"ts": BEGIN - 1, "v": -1})
    for topic in INNER:
        yield from cells(topic)
    yield from cells(DEAD_LETTERS)
    yield from wal_cells(METERS, b"m1", row, normal=False)
    yield from wal_cells(PLAIN, b"plain", row, normal=True)
    yield from malformed_cells(row)


def poison(log: KafkaLog, some: Sequence[Cell]) -> dict[Place, Cell]:
    """Where each cell lies."""
    compacted = {topic.name for topic in TOPICS if topic.compacted}
    places: dict[Place, Cell] = {}
    for cell in some:
        message = Message(cell.topic, cell.key, cell.value)
        if cell.key is None and cell.topic in compacted:
            continue  # the broker refuses it
        ((partition, offset),) = log.append([message])
        places[cell.topic, partition, offset] = cell
        time.sleep(0.1)  # before, between and behind the rows of many batches
    return places


def letters(log: KafkaLog) -> Counter[Place]:
    found: Counter[Place] = Counter()
    for record in replay(log, DEAD_LETTERS.name):
        try:
            one = dead.decode(record.value or b"")
        except msgspec.DecodeError:
            continue  # a cell of the matrix itself
        assert one.service == buried_by(one.topic), one.detail
        found[one.topic, one.partition, one.offset] += 1
    return found


def eventually(check: Callable[[], bool], seconds: float, what: Callable[[], object]) -> None:
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, what()
        time.sleep(0.5)


@pytest.fixture(scope="module")
def rest(stack: Stack) -> Iterator[Rest]:
    with Rest(stack.settings.url("api-gateway"), timeout=120) as found:
        found.execute(f"CREATE DATABASE {DB}")
        found.execute(f"CREATE STABLE {DB}.meters (ts TIMESTAMP, v INT) TAGS (site INT)")
        found.execute(f"CREATE TABLE {DB}.plain (ts TIMESTAMP, v INT)")
        for number, child in enumerate(CHILDREN):
            found.execute(f"CREATE TABLE {DB}.{child} USING {DB}.meters TAGS ({number % 2})")
        for name, source in STREAMS.items():
            found.execute(
                f"CREATE STREAM {DB}.{name} INTERVAL(1s) SLIDING(1s) FROM {DB}.{source} INTO {DB}.out_{name} "
                "AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows"
            )
        yield found
        found.execute(f"DROP DATABASE {DB}")


def expected(rows: int) -> dict[str, Counter[tuple[int, int]]]:
    """Stream -> (rows, sum) of each window, and how many windows have them."""
    each = WINDOW // STEP
    sums = [sum(range(first, first + each)) for first in range(0, rows, each)]
    sites = Counter(number % 2 for number in range(len(CHILDREN)))
    return {
        "by_child": Counter({(each, total): len(CHILDREN) for total in sums}),
        "by_site": Counter((each * count, total * count) for total in sums for count in sites.values()),
        "of_all": Counter((each * len(CHILDREN), total * len(CHILDREN)) for total in sums),
        "of_plain": Counter((each, total) for total in sums),
    }


def stored(rest: Rest) -> dict[str, Counter[tuple[int, int]]]:
    found = {}
    for name in STREAMS:
        rows: Sequence[tuple[Any, ...]] = rest.execute(f"SELECT n, total FROM {DB}.out_{name}").rows
        found[name] = Counter((int(n), int(total)) for n, total in rows)
    return found


def test_poison_in_every_topic_under_load(stack: Stack, rest: Rest) -> None:
    log = KafkaLog(stack.settings.broker, "poison")
    log.ensure_topics([(topic, 1) for topic in MALFORMED])
    pids = {row.name: row.pid for row in stack.status()}
    said = stack.place.log_file("trigger-svc").stat().st_size
    with Load(log) as load:
        places = poison(log, list(all_cells()))
    wanted = Counter({place: 1 for place, cell in places.items() if cell.letters})

    def found() -> Counter[Place]:
        return Counter({place: count for place, count in letters(log).items() if place in places})

    def difference() -> object:
        got = found()
        return {
            str(places[place]): (got[place], wanted[place]) for place in places if got[place] != wanted[place]
        }

    eventually(lambda: not wanted - found(), 90, difference)
    windows = expected(load.count)
    eventually(
        lambda: stored(rest) == windows,
        120,
        lambda: {
            name: (len(got), sum(got.values()), sum((windows[name] - got).values()))
            for name, got in stored(rest).items()
        },
    )
    assert found() == wanted, difference()
    assert {row.name: row.pid for row in stack.status() if row.ready} == pids, "all ready, none started again"
    with stack.place.log_file("trigger-svc").open("rb") as lines:
        lines.seek(said)
        assert b"the trigger query failed" not in lines.read()
    shown = rest.execute("SELECT stream_name, status FROM information_schema.ins_streams").rows
    assert {name: state for name, state in shown if name in STREAMS} == dict.fromkeys(STREAMS, "Running")

    # a killed calc-svc looks at the catalog, the status and foreign topics once more: no letter comes again
    time.sleep(5)  # what it has taken is flushed
    assert stack.kill("calc-svc")
    more = poison(log, [cell for cell in all_cells() if buried_by(cell.topic) == "calc-svc"])
    stack.start("calc-svc")
    places |= more
    wanted |= Counter({place: 1 for place, cell in more.items() if cell.letters})
    eventually(lambda: not wanted - found(), 90, difference)
    assert found() == wanted, difference()
    assert stack.is_up()
    log.delete_topics(MALFORMED)
    log.close()
