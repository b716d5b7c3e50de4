"""What a stream's own query may take: hostile streams beside one that is not, in the service's process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from millrace.broker import Broker
from millrace.java import Java
from millrace.processes import free_port
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Database
from millrace_core.model.stream import Notify
from millrace_core.wire import notices, status, topics
from millrace_wal import BEGIN

pytestmark = pytest.mark.java

MINUTE = 60_000
SECONDS = 6
NUMBERS = count(1)
HOSTILE = {
    "cross join": "SELECT _twstart, count(*) n, avg(a.amps) a FROM power.meters a, power.meters b, "
    "power.meters c, power.meters d WHERE a.amps + b.amps + c.amps + d.amps = -1",
    "what no interrupt ends": "SELECT _twstart, count(*) n, avg(amps) a FROM power.meters "
    "WHERE concat(tbname, repeat('a', 60), '!') MATCH '^m0(.*a){24}$'",
}


@pytest.fixture(scope="module")
def own_broker(java: Java, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Nobody else's: hostile streams stay in its catalog, where others' calc-svc would find them."""
    broker = Broker(java, jars, tmp_path_factory.mktemp("broker"), free_port())
    broker.start()
    yield broker.address
    broker.stop()


@pytest.fixture(scope="module")
def calc(own_broker: str, java: Java, tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Iterator[Any]:
    service = kit.Calc(
        own_broker, java, tmp_path_factory.mktemp("calc"), MILLRACE_CALC_STREAM_SECONDS=str(SECONDS),
        MILLRACE_CALC_SPARK_MEMORY="600m", MILLRACE_CALC_QUERY_MEMORY="600m",
    )  # fmt: skip
    service.log.ensure_topics(topics.TOPICS)
    service.define(Database("power"), kit.METERS, *kit.CHILDREN)
    service.write(kit.METERS, kit.data(kit.CHILDREN, 20))
    service.start()
    yield service
    service.kill()
    service.log.close()


class Streams:
    """Streams of the service, which is started again where it has ended, as its supervisor does."""

    def __init__(self, calc: Any, kit: Any) -> None:
        self._calc, self._kit, self._log = calc, kit, calc.log
        self.starts = 0
        names = topics.STATUS.name, topics.NOTIFICATIONS.name
        self._reader = self._log.reader({
            name: dict.fromkeys(self._log.end_offsets(name), BEGIN) for name in names
        })  # fmt: skip
        self._said: list[object] = []
        self._notices: list[notices.Notice] = []

    def _read(self) -> None:
        for record in self._reader.poll(0.1):
            if record.value is None:
                continue
            if record.topic == topics.STATUS.name:
                self._said.append(status.decode(record.value))
            else:
                self._notices += notices.decode(record.value).notices

    def close(self) -> None:
        self._reader.close()

    def define(self, query: str) -> Any:
        spec = self._kit.stream(next(NUMBERS), query, notify=Notify(("ws://a",), ("WINDOW_CLOSE",)))
        self._calc.define(self._kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
        return spec

    def fire(self, spec: Any, *minutes: int, child: int = 0) -> None:
        own = self._kit.own(self._kit.CHILDREN[child])
        self._calc.fire(spec, self._kit.closes(spec, own, [minute * MINUTE for minute in minutes]))

    def eventually(self, check: Any, seconds: float) -> None:
        def checked() -> bool:
            if self._calc.process.poll() is not None:
                self.starts += 1
                self._calc.start()
            self._read()
            return bool(check())

        self._kit.eventually(checked, seconds)

    def told(self, spec: Any) -> int:
        """Of how many windows somebody is told, in one notice or several. (What would read their rows may be
        starting.)"""
        mine = (one for one in self._notices if one.stream == spec.full_name)
        return len({one.event["windowStart"] for one in mine})

    def failures(self, spec: Any) -> int:
        """How many triggers were given up, as its counters say."""
        mine = [one for one in self._said if isinstance(one, status.Counters) and one.stream == spec.uid]
        return max((one.totals.get("failures", 0) for one in mine), default=0)

    def failure(self, spec: Any) -> str:
        mine = [one for one in self._said if isinstance(one, status.StreamFailure) and one.stream == spec.uid]
        return mine[-1].message if mine else ""


@pytest.fixture
def streams(calc: Any, kit: Any) -> Iterator[Streams]:
    found = Streams(calc, kit)
    yield found
    found.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_query_that_takes_too_long_is_given_up_and_the_others_go_on(
    streams: Streams, kit: Any, name: str
) -> None:
    hostile, other = streams.define(HOSTILE[name]), streams.define(kit.QUERY)
    streams.fire(hostile, 0)
    for minute in range(5):
        streams.fire(other, minute)
        streams.eventually(lambda: streams.told(other) == minute + 1, 600)  # noqa: B023
    streams.eventually(lambda: "MILLRACE_CALC_STREAM_SECONDS" in streams.failure(hostile), 600)
    streams.fire(hostile, 1)
    streams.fire(other, 5)
    streams.eventually(lambda: streams.told(other) == 6, 600)
    streams.eventually(lambda: streams.failures(hostile) == 2, 600)
    assert streams.starts <= 1, "it has ended the service once at most"


def test_a_result_has_only_so_many_rows(streams: Streams, kit: Any) -> None:
    """The limit of these tests is a thousand."""
    spec = streams.define("SELECT ts, 1 n, amps a FROM power.meters")
    few = streams.define("SELECT ts, 1 n, amps a FROM power.meters WHERE ts < 600000")
    streams.fire(spec, 0)
    streams.fire(few, 0, 1, 2, 3)
    streams.eventually(lambda: "MILLRACE_CALC_RESULT_ROWS" in streams.failure(spec), 600)
    streams.eventually(lambda: streams.told(few) == 4, 600)
    assert not streams.failure(few), "each of its windows has few enough"
