"""The table store's reader and flusher over a log and a disk that fail: what files say was read is done.

Delta's commits hold how far a topic has been read: that is what is committed here. Whatever lies before it is
in the files, and its dead letters and registrations are in the log.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc_svc.loops import consumer, flusher, patience
from calc_svc.loops.consumer import WalConsumer
from calc_svc.loops.flusher import Flusher
from calc_svc.store import gathering
from calc_svc.store.catalog import CatalogView
from calc_svc.store.delta import DeltaRows
from calc_svc.store.tables import TableStore
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Database
from millrace_core.store.rows import Flush
from millrace_core.wire import dead, registrations, topics
from millrace_core.wire.operations import Delete, encode_operation
from millrace_wal import MemoryLog, Message, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault, Killed

from ...conftest import examples
from ...works import Steps
from .conftest import METERS, TOPIC, row

PARTITIONS = 2
Event = tuple[str, int]


class Disk(Enum):
    """What becomes of one commit of Delta."""

    WELL = "well"
    FULL = "it fails before it has taken effect"
    LATE = "it fails though it has taken effect"
    KILLED = "the process is killed behind it"


class Both:
    """The reader and the flusher, turn by turn, as one work."""

    name = "store"

    def __init__(self, log: FlakyLog, folder: Path) -> None:
        self.stopping = threading.Event()
        catalog = CatalogView()
        self.store = TableStore(catalog, folder, 1_000_000)
        self.reader = WalConsumer(log, catalog, self.store)
        self.flusher = Flusher(self.store)
        self.flushes = self.begun = False

    def begin(self) -> None:
        self.reader.begin()
        self.begun = True

    def step(self) -> None:
        self.reader.step()
        if self.flushes:
            self.flusher.step()

    def end(self) -> None:
        self.begun = False
        self.reader.end()

    def look(self) -> tuple[object, str]:
        return None, ""

    def stop(self) -> None:
        """As on SIGTERM: the step under way ends as it can, then everything is flushed. A reader that has
        failed, and waits to begin anew, takes no step any more."""
        self.reader.stopping.set()
        self.flusher.stopping.set()
        try:
            if self.begun:
                self.reader.step()
        finally:
            self.reader.end()
            self.flusher.end()


class Storing:
    """A table's topic is written, read into a store and flushed; everything may fail."""

    def __init__(self, folder: Path) -> None:
        self.log = FlakyLog(MemoryLog())
        self.folder = folder
        inner = self.log.log
        inner.ensure_topics([*topics.TOPICS, (TOPIC, PARTITIONS)])
        child = Child("power", "meters", "m1", (1,))
        records = (Database("power"), METERS, child)
        inner.append([Message(topics.CATALOG.name, key_of(r), encode(r)) for r in records])
        self.rows: dict[tuple[str, int], int] = {}
        self.bad: list[tuple[int, int]] = []
        self.registered: dict[tuple[int, int], str] = {}
        self.sent = 0
        self.disk: Iterator[Disk] = iter(())
        self.both: Both | None = None
        self.steps = Steps(self.make)  # type: ignore[arg-type]

    def make(self) -> Both:
        self.both = Both(self.log, self.folder)
        return self.both

    def send(self, kind: str, number: int) -> None:
        self.sent += 1
        name = f"m{number % 2 + 1}" if number % 2 + 1 == 1 or "m2" in self.registered.values() else "m1"
        if kind == "row":
            self._append(name, msgspec.json.encode(row(number, self.sent)))
            self.rows[name, number] = self.sent
        elif kind == "delete":
            self._append(name, encode_operation(Delete(number, number + 1)))
            self.rows = {k: v for k, v in self.rows.items() if k not in ((name, number), (name, number + 1))}
        elif kind == "bad":
            self.bad.append(self._append(name, b'{"ts": "noon"}'))
        else:
            value = msgspec.json.encode({"tags": {"site": 2}, "rows": [row(number, self.sent)]})
            self.registered[self._append("m2", value)] = "m2"
            self.rows["m2", number] = self.sent

    def _append(self, name: str, value: bytes) -> tuple[int, int]:
        (place,) = self.log.log.append([Message(TOPIC, name.encode(), value)])
        return place

    def commit(
        self,
        real: Any,
        delta: DeltaRows,
        flush: Flush,
        names: Sequence[str],
        upto: Mapping[int, int],
        *more: Any,
    ) -> None:
        """A commit of Delta, and what must be there before it."""
        letters = {(one.partition, one.offset) for one in self.letters()}
        told = {registrations.decode(r.value or b"") for r in replay(self.log.log, topics.REGISTRATIONS.name)}
        known = {one.name for one in told if isinstance(one, Child)}
        for partition, offset in self.bad:
            assert offset >= upto.get(partition, 0) or (partition, offset) in letters, "its letter is missing"
        for (partition, offset), name in self.registered.items():
            assert offset >= upto.get(partition, 0) or name in known, "its registration is missing"
        fate = next(self.disk, Disk.WELL)
        if fate is not Disk.FULL:
            real(delta, flush, names, upto, *more)
        if fate is Disk.KILLED:
            raise Killed("commit")
        if fate is not Disk.WELL:
            raise OSError(28, "No space left on device")

    def letters(self) -> list[dead.DeadLetter]:
        return [dead.decode(r.value or b"") for r in replay(self.log.log, topics.DEAD_LETTERS.name)]

    def round(self, events: list[Event], faults: list[InjectedFault], disk: list[Disk], how: str) -> None:
        for event in events:
            self.send(*event)
        self.log.give(faults)
        self.disk = iter(disk)
        if self.both is not None:
            self.both.flushes = how != "read"
        self.steps.step()
        self.steps.step()
        if how == "stop" and self.both is not None:
            both = self.both
            try:
                both.stop()
            except Killed:
                pass
            except Exception as error:
                assert getattr(error, "code", None) is not None, "a fault of the work"
            self.steps.kill()

    def stored(self) -> dict[tuple[str, int], int]:
        """What a process that starts now reads of the files alone, each row as often as it is there."""
        store = TableStore(self.both.store.catalog, self.folder, 1_000_000)  # type: ignore[union-attr]
        found = store.open(METERS).delta.read()
        keys = list(zip(found.names.to_list(), found.data["ts"].to_list(), strict=True))
        assert len(set(keys)) == len(keys), "a row is stored twice"
        return dict(zip(keys, found.data["amps"].to_list(), strict=True))

    def finish(self) -> None:
        self.log.give([])
        self.disk = iter(())
        for _ in range(40):
            self.steps.step()
            assert self.both is not None
            self.both.flushes = True
            ends = self.log.log.end_offsets(TOPIC)
            tables = {table.topic: table for table in self.both.store.tables()}
            if TOPIC in tables and all(tables[TOPIC].flushed.get(p, 0) == end for p, end in ends.items()):
                return
        raise AssertionError("everything is read and flushed in the end")


kinds = st.sampled_from(["row", "row", "row", "delete", "bad", "register"])
events_ = st.lists(st.tuples(kinds, st.integers(0, 3)), max_size=6)
faults_ = st.lists(st.sampled_from(FAILURES + KILLS), max_size=14)
disks = st.lists(st.sampled_from(list(Disk)), max_size=2)
how_ = st.sampled_from(["read", "flush", "flush", "stop"])
NONE, BEFORE, AFTER = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER
ROW, BAD, REGISTER = ("row", 0), ("bad", 0), ("register", 1)


@settings(max_examples=examples(30))
@example([([ROW], [], [], "flush"), ([("row", 2)], [], [Disk.LATE], "flush")])
@example(
    [
        ([ROW], [], [], "read"),
        ([], [], [], "read"),
        ([BAD, REGISTER], [NONE, NONE, NONE] + [BEFORE] * 9, [], "stop"),
    ]
)
@example([([], [BEFORE, BEFORE], [], "stop")])
@given(st.lists(st.tuples(events_, faults_, disks, how_), min_size=1, max_size=5))
def test_what_is_committed_is_done(
    rounds: list[tuple[list[Event], list[InjectedFault], list[Disk], str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        for module, name in (
            (consumer, "POLL"), (consumer, "REST"), (consumer, "LIST_EVERY"),
            (gathering, "LEAST"), (gathering, "MOST"), (patience, "PAUSE"),
            (flusher, "TICK"), (flusher, "IDLE_SHARE"), (flusher, "AGE"), (flusher, "AGE_OF_FEW"),
        ):  # fmt: skip
            patch.setattr(module, name, 0)
        storing, real = Storing(Path(folder)), DeltaRows.commit
        patch.setattr(DeltaRows, "commit", lambda delta, *rest: storing.commit(real, delta, *rest))
        for one in rounds:
            storing.round(*one)
        storing.finish()
        assert storing.stored() == storing.rows
        assert {(one.partition, one.offset) for one in storing.letters()} == set(storing.bad)
