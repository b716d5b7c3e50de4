"""The trigger loop of calc-svc over a log in memory: jobs note what they are to calculate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import structlog

from calc_svc.jobs.waits import Waits
from calc_svc.loops.holding import LIVE, Share
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.errors import MillraceError
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.types import Period
from millrace_core.wire import events
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.topics import CATALOG, CONTROL, NOTIFICATIONS, STATUS, TRIGGERS
from millrace_service import Life
from millrace_wal import MemoryLog, Message

ONE, OTHER = 7, 8


LOGGER = structlog.get_logger("test")


class Store:
    """How far each stream's rows are stored, by its number; all of them at first."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self.positions: dict[str, int] = {}

    def missing(self, wanted: Wanted) -> str | None:
        if self.catalog.position < wanted.catalog:
            return f"catalog offset {wanted.catalog}"
        for topic, offsets in wanted.wal.items():
            if self.positions.get(topic, 1 << 60) < offsets[0]:
                return f"{topic}/0 offset {offsets[0]}"
        return None

    def sent(self, messages: Sequence[Message], places: Sequence[tuple[int, int]]) -> None:
        assert len(messages) == len(places)

    def reach(self, wanted: Wanted, timeout: float) -> None:
        if (missing := self.missing(wanted)) is not None:
            raise Behind(wanted, missing, timeout)


class Jobs:
    """In the place of the jobs, which need Spark: notes what is to be calculated, in order. ``others``: what
    a stream waits for beside its own rows."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self.store = Store(catalog)
        self.done: list[tuple[int, int]] = []
        self.told: Callable[[], None] = lambda: None
        self.others: dict[int, Callable[[], MillraceError | None]] = {}
        self.long: dict[int, threading.Event] = {}
        """Streams whose calculation takes until this."""

    def wanted(self, uid: int, batches: Sequence[TriggerBatch]) -> Wanted:
        return Wanted(wal={f"wal.d.s{uid}": {0: max(batch.seen.get(0, 0) for batch in batches)}})

    def low_latency(self, uid: int) -> bool:
        return False

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
        if uid in self.others and uid not in waits.known and (error := self.others[uid]()) is not None:
            return Product(uid, waits=error)
        if uid in self.long:
            assert self.long[uid].wait(60)
        for batch in batches:
            self.done += [(uid, event.start) for event in batch.events]
        self.told()
        return Product(uid)

    def stop(self) -> None:
        return None

    def of(self, uid: int) -> list[int]:
        return [number for stream, number in list(self.done) if stream == uid]


class Calc:
    """The trigger loop, and a catalog that follows the log as calc-svc's does: the topic ``status`` only
    once it ``follows``."""

    def __init__(
        self, log: MemoryLog, share: Share = LIVE, stored: Mapping[str, int] | None = None, *,
        follows: bool = True,
    ) -> None:  # fmt: skip
        self.view = CatalogView()
        self.jobs = Jobs(self.view)
        self.jobs.store.positions = dict(stored or {})
        self._log = log
        self._readers = [log.reader({topic.name: {0: 0}}) for topic in (CATALOG, STATUS)]
        self.follows = threading.Event()
        if follows:
            self.follows.set()
        self.follow()
        self.loop = TriggerLoop(log, self.jobs, Overtaking(), share)  # type: ignore[arg-type]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.life = Life(self.loop, LOGGER)
        self.life.start()

    def follow(self) -> None:
        catalog, statuses = self._readers
        for record in catalog.poll(0):
            self.view.apply(record.offset, record.key or b"", record.value)
        if self.follows.is_set():
            for record in statuses.poll(0):
                self.view.apply_status(record.key or b"", record.value)
            self.view.status_position = statuses.positions()[STATUS.name][0]

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            self.follow()

    def take_steps(self, count: int = 3) -> None:
        """Return when the loop has taken this many steps from now on: what has not happened by then has been
        looked at and left."""
        work, taken = cast(Any, self.loop), threading.Semaphore(0)

        def step() -> None:
            type(work).step(work)
            taken.release()

        work.step = step
        for _ in range(count + 1):  # one may have been under way
            assert taken.acquire(timeout=60), "it takes no steps"
        del work.step

    def stop(self) -> None:
        self.life.stop()
        self._stop.set()
        self._thread.join()


def two_streams() -> MemoryLog:
    """A log with two streams in its catalog."""
    log = MemoryLog()
    log.ensure_topics([CATALOG, CONTROL, STATUS, TRIGGERS, NOTIFICATIONS])
    for uid in (ONE, OTHER):
        define(log, uid)
    return log


def define(log: MemoryLog, uid: int) -> None:
    log.append([Message(CATALOG.name, key_of(entry(uid)), encode(entry(uid)))])


def entry(uid: int) -> StreamEntry:
    return StreamEntry(StreamSpec(uid, "db", f"s{uid}", "", Period(Duration(1, "s"))), "Running", 0, -1)


def trigger(log: MemoryLog, *streams: int, numbers: range, slot: int = 0) -> None:
    for number in numbers:
        for uid in streams:
            event = TriggerEvent(
                f"{uid}-{number}", "ON_TIME", "LIVE", Group(0, (), None), number, number, 0, 0
            )
            batch = TriggerBatch(uid, 0, slot, number, {0: number}, [event])
            log.append([Message(TRIGGERS.name, f"{uid}/{slot}".encode(), events.encode(batch))])


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def uncommitted(log: MemoryLog) -> int:
    """How many trigger messages a new start of calc-svc would read."""
    with log.subscribe("calc-svc", [TRIGGERS.name]) as probe:
        return len(probe.poll(0))
