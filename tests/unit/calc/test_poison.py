"""Poison in every topic that calc-svc reads: one dead letter each, all threads alive, other rows stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from calc_svc.jobs.answers import Answers
from calc_svc.jobs.job import StreamJobs
from calc_svc.loops.holding import AGAIN, LIVE
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.recalc import RecalcLoop
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store import orphans
from millrace_core.model.schema import Child
from millrace_core.recalc.requests import LANES
from millrace_core.recalc.told import Told
from millrace_core.wire import dead
from millrace_core.wire.topics import CATALOG, RECALC, STATUS, TOPICS, TRIGGERS, buried_by, wal_topic
from millrace_service import Life
from millrace_wal import Message

from ...poison import MALFORMED, Cell, cells, malformed_cells, wal_cells
from .conftest import METERS, PLAIN, Running, eventually, row

ROW = b'{"ts":5,"amps":1}'
CELLS = [
    *(cell for topic in (CATALOG, STATUS, TRIGGERS, RECALC) for cell in cells(topic)),
    *wal_cells(wal_topic("power", "meters"), b"m1", ROW, normal=False),
    *wal_cells(wal_topic("power", "log"), b"log", ROW, normal=True),
    *malformed_cells(ROW),
]


class Service(Running):
    """The consumer and the four loops, over one log in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.define(METERS, PLAIN, Child("power", "meters", "m1", (1,)))
        self.log.ensure_topics([(topic, 1) for topic in MALFORMED])

    def start(self) -> None:
        super().start()
        assert self.consumer is not None
        overtaking, none = Overtaking(), cast("Any", None)
        loops = [
            TriggerLoop(self.log, StreamJobs(none, self.catalog, self.store, share.pool), overtaking, share)
            for share in (LIVE, AGAIN)
        ]
        answers = Answers(self.catalog, self.store, Told(self.catalog))
        lanes = [RecalcLoop(self.log, answers, group, lambda partition: 1 << 60) for group in LANES]
        self.loops = [Life(cast("Any", loop), structlog.get_logger("test")) for loop in (*loops, *lanes)]
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        """As if it were killed: what is not flushed is read again."""
        for loop in self.loops:
            loop.stop()
        super().stop()

    @property
    def alive(self) -> bool:
        return self.life.alive and all(loop.alive for loop in self.loops)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(orphans, "ORPHAN_AFTER", 0.1)
    monkeypatch.setattr("calc_svc.loops.consumer.LIST_EVERY", 0.05)
    found = Service(tmp_path / "tables")
    found.start()
    yield found
    found.stop()


def wanted(poisons: list[Cell]) -> Counter[str]:
    return Counter(cell.topic for cell in poisons if cell.letters and buried_by(cell.topic) == "calc-svc")


def told(letters: list[dead.DeadLetter]) -> Counter[str]:
    assert all(one.service == "calc-svc" and one.detail for one in letters)
    assert len({(one.topic, one.partition, one.offset) for one in letters}) == len(letters), "one each"
    return Counter(one.topic for one in letters)


def send(service: Running, poisons: list[Cell]) -> None:
    service.log.append([Message(cell.topic, cell.key, cell.value) for cell in poisons])


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.topic in {t.name for t in TOPICS}], ids=str)
def test_one_message_of_an_inner_topic(service: Service, cell: Cell) -> None:
    send(service, [cell])
    service.define(Child("power", "meters", "m2", (1,)))
    service.send("m2", row(1))
    eventually(lambda: told(service.letters()) == wanted([cell]))
    assert ("m2", 1) in service.rows()
    assert service.alive


def test_all_of_it_among_good_messages_and_after_restarts(service: Service) -> None:
    for number, cell in enumerate(CELLS):
        service.send("m1", row(number))
        send(service, [cell])
        service.send("log", row(number), PLAIN)
    eventually(lambda: told(service.letters()) == wanted(CELLS), 30)
    assert service.alive
    for name, table in (("m1", METERS), ("log", PLAIN)):
        mine = {(name, number) for number in range(len(CELLS))}
        assert mine <= service.rows(table).keys()
    service.restart()
    # nothing is told again of what was told before; what came meanwhile is told
    service.stop()
    send(service, CELLS)
    service.start()
    twice = Counter({topic: 2 * count for topic, count in wanted(CELLS).items()})
    eventually(lambda: told(service.letters()) == twice, 30)
    service.define(Child("power", "meters", "m2", (1,)))
    service.send("m2", row(1))
    assert ("m2", 1) in service.rows()
    assert service.alive


def test_what_a_dropped_table_left_behind_is_not_told_of_after_a_restart(service: Service) -> None:
    service.send("log", row(1), PLAIN)
    service.wait()
    service.stop()
    service.undefine(PLAIN)
    service.start()
    service.send("log", row(2), PLAIN)
    eventually(lambda: len(service.letters()) == 1)
    (letter,) = service.letters()
    assert letter.detail == "the table power.log does not exist" and b'"ts":2' in (letter.value or b"")
