"""A broker that is killed, and one that stands still, three times at odd moments under load, with every
service running: all windows are calculated."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from millrace import broker, processes
from millrace.settings import StackSettings
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.errors import MillraceError

pytestmark = pytest.mark.stack

DEVICES, ROWS_PER_SECOND = 10, 200
WINDOW_MS = 1_000
LIMIT = 180.0
"""Seconds after which what has not been calculated counts as lost; how long it takes is reported."""
BEGIN = 1_767_225_600_000  # 2026-01-01, on a window's start


class Feed(threading.Thread):
    """Writes rows, 5 ms of event time apart, devices by turns, for as long as it is not told to stop; however
    long the broker is away, none is lost and none comes twice."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({
            "bootstrap.servers": address, "enable.idempotence": True, "message.timeout.ms": 0,
            "partitioner": "murmur2_random", "reconnect.backoff.max.ms": 500, "log_level": 0,
        })  # fmt: skip
        self._ended = threading.Event()
        self.rows = 0

    def run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(0.05):
            self._write(int((time.monotonic() - began) * ROWS_PER_SECOND))

    def _write(self, until: int) -> None:
        while self.rows < until:
            row = {"ts": BEGIN + self.rows * 1_000 // ROWS_PER_SECOND, "amps": 1.0}
            device = f"m{self.rows % DEVICES}"
            self._producer.produce("wal.power.meters", key=device, value=json.dumps(row))
            self.rows += 1
        self._producer.poll(0)

    def finish(self) -> int:
        """Write no more but what closes the last full window; how many windows there are by then."""
        self._ended.set()
        self.join()
        per_window = ROWS_PER_SECOND * WINDOW_MS // 1_000
        windows = -(-self.rows // per_window)
        self._write(windows * per_window + DEVICES)
        assert self._producer.flush(60) == 0
        return windows * DEVICES


def _say(line: str) -> None:
    sys.__stdout__.write(f"\n  {line.strip()}")  # type: ignore[union-attr]


def _process(stack: Stack) -> psutil.Process:
    found = processes.running(stack.place, broker.NAME)
    assert found is not None, "the supervisor has not started the broker again"
    return found


def _kill(stack: Stack) -> None:
    """kill -9; the supervisor starts it again."""
    dead = _process(stack)
    dead.kill()
    deadline = time.monotonic() + 90
    while processes.running(stack.place, broker.NAME) is None or not _answers(stack):
        assert time.monotonic() < deadline, "the broker did not come back"
        time.sleep(0.1)


def _answers(stack: Stack) -> bool:
    return broker.answers(stack.settings.broker_port)


def _pause(seconds: float) -> Callable[[Stack], None]:
    def pause(stack: Stack) -> None:
        standing = _process(stack)
        standing.suspend()
        time.sleep(seconds)
        standing.resume()

    return pause


@pytest.fixture(scope="module")
def supervised(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings.on_free_ports(tmp_path_factory.mktemp("outages"), jars)
    one = Stack(replace(settings, supervise=True), _say)
    try:
        one.up()
        yield one
    finally:
        one.down()


def _count(rest: Rest, sql: str) -> int:
    try:
        rows = rest.execute(sql).rows
    except MillraceError as error:
        _say(f"  {error}")
        return -1
    return int(rows[0][0]) if rows else 0


SCHEDULES = {
    "killed": [(12.0, _kill), (10.0, _kill), (7.0, _kill)],
    "paused": [(7.0, _pause(4)), (9.0, _pause(12)), (8.0, _pause(25))],
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_everything_is_calculated_after_the_broker_is_back(supervised: Stack, name: str) -> None:
    stack = supervised
    with Rest(stack.settings.url("api-gateway")) as rest:
        rest.execute("DROP DATABASE IF EXISTS power")
        rest.execute("CREATE DATABASE power")
        rest.execute("CREATE STABLE power.meters (ts TIMESTAMP, amps DOUBLE) TAGS (site INT)")
        for number in range(DEVICES):
            rest.execute(f"CREATE TABLE power.m{number} USING power.meters TAGS ({number})")
        rest.execute(
            "CREATE STREAM power.per_second INTERVAL(1s) SLIDING(1s) FROM power.meters PARTITION BY tbname "
            "INTO power.seconds AS SELECT _twstart AS ts, count(*) AS n FROM %%tbname "
            "WHERE ts >= _twstart AND ts < _twend"
        )
        feed = Feed(stack.settings.broker)
        feed.start()
        for after, outage in SCHEDULES[name]:
            time.sleep(after)
            outage(stack)
            _say(f"  broker is back, {feed.rows} rows are written")
        back = time.monotonic()
        time.sleep(3)
        windows = feed.finish()
        fed = time.monotonic()
        while (found := _count(rest, "SELECT count(*) FROM power.seconds")) != windows:
            if time.monotonic() > back + LIMIT:
                break
            time.sleep(0.5)
        took = time.monotonic()
        _say(
            f"  {found} of {windows} windows, {took - back:.1f} s after the broker's last return, "
            f"{took - fed:.1f} s after the last row"
        )
        _say(str(rest.execute("SHOW power.STREAMS").rows))
        assert found == windows
        assert _count(rest, "SELECT sum(n) FROM power.seconds") == windows * ROWS_PER_SECOND // DEVICES
