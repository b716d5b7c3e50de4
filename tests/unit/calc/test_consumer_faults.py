"""The broker fails while calc-svc reads: whatever was read is taken in in the end, once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.loops import consumer
from calc_svc.loops.consumer import WalConsumer
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Child, Table
from millrace_core.wire import status
from millrace_core.wire.status import StreamPaused
from millrace_core.wire.topics import REGISTRATIONS, STATUS, WAL_PREFIX, wal_topic
from millrace_wal import MemoryLog, Message, replay
from millrace_wal.flaky import FAILURES, FlakyLog

from .conftest import METERS, PLAIN, Running, eventually, row


class Faulty(Running):
    """The consumer's log fails as it is told; who writes has one that does not."""

    def start(self) -> None:
        assert isinstance(self.log, MemoryLog)
        self.flaky = FlakyLog(self.log)
        self.catalog = CatalogView()
        self.store = TableStore(self.catalog, self.folder, self.memory_rows)
        self.consumer = WalConsumer(self.flaky, self.catalog, self.store)
        self.begin(self.consumer)

    def pause(self, uid: int, paused: bool) -> None:
        record = StreamPaused(uid, 0, 0, "away")
        value = status.encode(record) if paused else None
        self.log.append([Message(STATUS.name, status.key(record), value)])

    def drop(self, table: Table) -> None:
        self.undefine(table)
        self.log.delete_topics([wal_topic(table.db, table.name)])


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    monkeypatch.setattr(consumer, "LIST_EVERY", 0.05)
    system = Faulty(tmp_path / "tables")
    system.define(METERS, PLAIN, Child("power", "meters", "m1", (1,)))
    system.start()
    yield system
    system.stop()


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    real = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        raise MillraceError(ErrorCode.UNAVAILABLE, f"{name}: the broker is away")

    monkeypatch.setattr(owner, name, call)


def test_a_table_that_is_dropped_while_the_broker_fails_is_closed(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.send(None, row(1), PLAIN)
    faulty.wait()
    assert faulty.consumer is not None
    fails_once(monkeypatch, faulty.consumer, "_leave")
    faulty.drop(PLAIN)
    again = msgspec.structs.replace(PLAIN, uid=9)
    eventually(lambda: faulty.store.by_topic(wal_topic("power", "log")) is None)
    faulty.define(again)
    faulty.send(None, row(2), again)
    assert set(faulty.rows(again)) == {("log", 2)}


def test_what_a_failed_step_read_of_the_status_is_read_again(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert faulty.consumer is not None
    with faulty.log.changed:  # type: ignore[attr-defined]
        # all of it comes with one poll
        fails_once(monkeypatch, faulty.consumer, "_take_status")
        faulty.pause(7, True)
        faulty.send("m1", row(1))
    eventually(lambda: faulty.catalog.paused(7) == "away")
    assert set(faulty.rows()) == {("m1", 1)}


def test_letters_of_a_topic_without_a_table_are_written_though_the_broker_fails(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.store.orphans.ORPHAN_AFTER", 0.0)
    stray = f"{WAL_PREFIX}power.stray"
    faulty.log.ensure_topics([(stray, 1)])
    faulty.log.append([Message(stray, b"k", b"1")])
    eventually(lambda: len(faulty.letters()) == 1)
    assert faulty.consumer is not None
    fails_once(monkeypatch, faulty.consumer, "_take_status")
    faulty.log.append([Message(stray, b"k", b"2"), Message(stray, b"k", b"3")])
    faulty.pause(7, True)
    eventually(lambda: len(faulty.letters()) >= 3)
    faulty.send("m1", row(1))
    faulty.wait()
    assert [letter.value for letter in faulty.letters()] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_fails_the_store_is_as_without_failures(faulty: Faulty, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    tables: dict[str, Table] = {"log": PLAIN}
    uid = 100
    for number in range(60):
        faulty.flaky.give([rng.choice(FAILURES) for _ in range(rng.randrange(6))])
        name = rng.choice(["log", "other"])
        match rng.choice(["row", "row", "row", "child", "pause", "table"]):
            case "row" if name in tables:
                faulty.send(None, row(number), tables[name])
            case "row":
                faulty.send("m1", row(number))
            case "child":
                faulty.define(Child("power", "meters", f"m{number}", (number,)))
                faulty.send(f"m{number}", row(number))
            case "pause":
                faulty.pause(rng.randrange(3), rng.random() < 0.5)
            case _ if name in tables:
                faulty.drop(tables.pop(name))
            case _:
                uid += 1
                tables[name] = Table("power", name, "normal", uid, "ms", PLAIN.columns)
                faulty.define(tables[name])
        if rng.random() < 0.2:
            time.sleep(0.01)
    faulty.flaky.give([])
    faulty.wait()
    clean = Running(tmp_path / "clean", log=faulty.log)
    clean.start()
    for table in (METERS, *tables.values()):
        assert faulty.rows(table) == clean.rows(table), table.name
    assert {one.topic for one in faulty.store.tables()} == {one.topic for one in clean.store.tables()}
    for uid in range(3):
        eventually(lambda: faulty.catalog.paused(uid) == clean.catalog.paused(uid))  # noqa: B023
    clean.stop()


@pytest.mark.parametrize("value", [{"ts": "noon"}, {"tags": {"site": 2}, "rows": [row(1)]}])
def test_what_was_not_written_when_it_stopped_is_read_again(tmp_path: Path, value: Any) -> None:
    """A dead letter and a registration. All is flushed at the end: how far was read must not be past them."""
    log = MemoryLog()
    system = Running(tmp_path / "tables", log=log)
    system.define(METERS, Child("power", "meters", "m1", (1,)))
    system.catalog = CatalogView()
    system.store = TableStore(system.catalog, system.folder, system.memory_rows)

    class Away(FlakyLog):
        def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
            reader.stopping.set()
            raise MillraceError(ErrorCode.UNAVAILABLE, "the broker cannot be reached")

    reader = WalConsumer(Away(log), system.catalog, system.store)
    reader.begin()
    system.send("m2" if "tags" in value else "m1", value)
    with pytest.raises(MillraceError, match="calc-svc is stopping"):
        for _ in range(3):
            reader.step()
    reader.end()
    system.store.table(METERS).flush()
    system.start()
    system.wait()
    told = [record.key for record in replay(log, REGISTRATIONS.name)]
    system.stop()
    assert (len(system.letters()), told) == ((0, [b"power.m2"]) if "tags" in value else (1, []))
