"""Streams on virtual tables: history, rows of a stop and late rows, put together from the sources' rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc_svc.jobs.answers import Answers
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.schema import Child, Column, Database, Origin, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.recalc.sending import Work
from millrace_core.recalc.told import Told
from millrace_core.store.place import place_of
from millrace_core.wire import control
from millrace_core.wire.operations import Delete
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import slot_of, wal_topic
from millrace_core.wire.virtual import Link
from millrace_wal import Record

from ...conftest import examples
from .conftest import ALL, KIT, Deployment, make, same, same_but_empty, truth

INT = DataType("INT")
PHYS = Table("d", "phys", "super", 3, "ms", (Column("ts", TIMESTAMP), Column("a", INT)), (Column("k", INT),))
PLAIN = Table("d", "plain", "normal", 4, "ms", (Column("t", TIMESTAMP), Column("b", INT)))
VIRT = Table(
    "d", "virt", "super", 5, "ms", (Column("ts", TIMESTAMP), Column("v", INT), Column("w", INT)),
    (Column("k", INT),), virtual=True,
)  # fmt: skip
V = {name: Origin("d", "phys", 3, name, "a") for name in ("p1", "p2")}
W = Origin("d", "plain", 4, "plain", "b")
CREATED = 1_000
CHILDREN = (
    Child("d", "virt", "c1", (1,), origins=(None, V["p1"], W)),
    Child("d", "virt", "c2", (1,), origins=(None, V["p2"], None)),
)
SOURCE_OF = {"p1": ("c1", ("a", "v")), "p2": ("c2", ("a", "v")), "plain": ("c1", ("b", "w"))}


class VirtualDeployment(Deployment):
    """``virt.c1`` takes v from p1 and w from plain; ``virt.c2`` takes v from p2."""

    def __init__(self, folder: Path, spec: StreamSpec, *, more: tuple[Child, ...] = ()) -> None:
        self.spec = msgspec.structs.replace(spec, created=CREATED)
        self.table, self.topic = VIRT, wal_topic("d", "virt")
        self.cluster: Any = KIT.Cluster(slots=2)
        self.catalog = CatalogView()
        records: list[Any] = [Database("d"), PHYS, PLAIN, VIRT, StreamEntry(self.spec, "Running", 0, 0)]
        records += [Child("d", "phys", name, (1,)) for name in V]
        for offset, record in enumerate([*records, *CHILDREN, *more]):
            self.catalog.apply(offset, key_of(record), encode(record))
        self.store = TableStore(self.catalog, folder, 1_000_000)
        self.sources = {wal_topic(table.db, table.name): self.store.open(table) for table in (PHYS, PLAIN)}
        self.virtual = self.store.open_virtual(VIRT, lambda topic, spans: [])
        self.told = Told(self.catalog)
        self.answers = Answers(self.catalog, self.store, self.told, slice_rows=7)
        self.events: list[Any] = []
        self.requests: list[Any] = []
        self._asked: list[Any] = []
        self._heard = self._answered = 0
        send = self.cluster.send

        def stored(topic: str, key: bytes | None, value: bytes | None) -> None:
            offset = self.cluster.ends.get(topic, 0)
            send(topic, key, value)
            if topic in self.sources:
                self.sources[topic].take([key], [value], np.array([place_of(0, offset)], dtype=np.int64))
                self.sources[topic].advance({0: offset + 1})
            elif topic == self.topic:
                self.virtual.take([Record(topic, 0, offset, 0, key, value)])

        self.cluster.send = stored

    def ends(self) -> dict[str, control.Offsets]:
        return {topic: {0: self.cluster.ends.get(topic, 0)} for topic in self.sources}

    def define(self) -> None:
        for slot in range(self.cluster.slots):
            links = tuple(
                Link(wal_topic("d", table.name), source, target, (column,))
                for source, (target, column) in SOURCE_OF.items()
                for table in (PLAIN if source == "plain" else PHYS,)
                if slot_of(wal_topic("d", table.name), source.encode(), self.cluster.slots) == slot
            )
            self.cluster.control(
                control.KnowOrigins(slot, self.spec.uid, VIRT, (PHYS, PLAIN), self.ends(), links)
            )
        live_from = {0: self.cluster.ends.get(self.topic, 0)}
        self.cluster.control(control.DefineStream(self.spec, live_from, 0, self.ends()))
        for child in CHILDREN:
            slot = slot_of(self.topic, child.name.encode(), self.cluster.slots)
            self.cluster.control(control.KnowChildren(slot, (child,)))

    def stop(self) -> None:
        self.cluster.control(control.StopStream(self.spec.uid, self.ends()))

    def start(self, untreated: bool = True) -> None:
        live_from = {0: self.cluster.ends.get(self.topic, 0)}
        self.cluster.control(
            control.StartStream(self.spec.uid, live_from, 1, self.ends(), untreated=untreated)
        )

    def put(self, source: str, ts: int, value: Any) -> None:
        table = PLAIN if source == "plain" else PHYS
        key, column = (one.name for one in table.columns)
        self.cluster.send(
            wal_topic(table.db, table.name), source.encode(), encode_rows([{key: ts, column: value}])
        )

    def run(self) -> None:
        self.cluster.run()
        self._hear(self.cluster.triggers[self._heard :])
        self._heard = len(self.cluster.triggers)
        self.requests += self.cluster.asked
        self._asked += self.cluster.asked
        self.cluster.asked.clear()


def virtual(kit: Any, name: str, watermark: int = 0, **options: Any) -> Any:
    spec = make(kit, name, watermark, **options)
    return msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, table=VIRT))


values = st.sampled_from([None, 1, 1, 2, 3])
rows = st.dictionaries(st.integers(0, 80), values, max_size=15)
times = st.sets(st.integers(0, 80), max_size=5)


def merged(v: dict[int, Any], w: set[int], shift: int = 0) -> dict[int, Any]:
    """The rows of c1: v is NULL where plain alone has one."""
    return {ts + shift: v.get(ts) for ts in v.keys() | w}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["interval", "session", "state", "event2", "count"])
@settings(max_examples=examples(50))
@given(old=rows, other=times, live=rows, early=st.integers(0, 12), begin=st.sampled_from([ALL, 20]))
def test_history_is_what_the_sources_had(
    kit: Any, name: str, first: bool, old: dict[int, Any], other: set[int], live: dict[int, Any], early: int,
    begin: int,
) -> None:  # fmt: skip
    spec = virtual(kit, name, **{"fill_history_first" if first else "fill_history": begin})
    later = {ts + 100: v for ts, v in live.items()} | {200: 1, 201: 2, 240: 9, 300: 1}
    with tempfile.TemporaryDirectory() as folder:
        together = VirtualDeployment(Path(folder), spec)
        for ts, value in old.items():
            together.put("p1", ts, value)
        for ts in other:
            together.put("plain", ts, 7)
        together.put("p2", 5, 1)
        together.run()
        together.define()
        for place, ts in enumerate(sorted(later)):
            together.put("p1", ts, later[ts])
            together.run()
            if place == early:
                assert not together.events
                together.answer()
        together.answer()
        table = {ts: v for ts, v in merged(old, other).items() if ts >= begin} | later
        same(together.windows(), truth(spec, table, 300))


@pytest.mark.parametrize("untreated", [True, False])
@pytest.mark.parametrize("name", ["session", "state", "count"])
@settings(max_examples=examples(50))
@given(before=rows, missed=rows, live=rows, lag=st.integers(0, 3))
def test_a_stop_is_a_pause(
    kit: Any, name: str, before: dict[int, Any], missed: dict[int, Any], live: dict[int, Any], lag: int,
    untreated: bool,
) -> None:  # fmt: skip
    """``lag``: rows that were written before the stop, and reached no slot before it."""
    spec = virtual(kit, name, fill_history=ALL)
    with tempfile.TemporaryDirectory() as folder:
        together = VirtualDeployment(Path(folder), spec)
        together.define()
        ordered = sorted(before)
        seen = max(0, len(ordered) - lag)
        for ts in ordered[:seen]:
            together.put("p1", ts, before[ts])
        together.run()
        for ts in ordered[seen:]:
            together.put("p1", ts, before[ts])
        together.stop()
        together.run()
        for ts in sorted(missed):
            together.put("p1", ts + 100, missed[ts])
        together.run()
        together.start(untreated)
        together.run()
        later = live | {90: 9, 95: 1}
        for ts in sorted(later):
            together.put("p1", ts + 200, later[ts])
        together.run()
        together.answer()
        table = {ts: v for ts, v in before.items() if untreated or ts in ordered[:seen]}
        table |= {ts + 100: v for ts, v in missed.items() if untreated}
        same(together.windows(), truth(spec, table | {ts + 200: v for ts, v in later.items()}, 295))


changes = st.lists(
    st.tuples(st.sampled_from(["p1", "p1", "plain", "delete"]), st.integers(-25, 12), values, st.booleans()),
    min_size=4, max_size=20,
)  # fmt: skip


@pytest.mark.parametrize("name", ["interval", "session", "state", "event2"])
@settings(max_examples=examples(5))
@given(steps=changes)
def test_late_rows_and_deletes_of_a_source_end_in_the_windows_of_the_rows_in_order(
    kit: Any, name: str, steps: list[Any]
) -> None:
    spec = virtual(kit, name, delete_recalc=True)
    v: dict[int, Any] = {}
    w: set[int] = set()
    newest = 0
    with tempfile.TemporaryDirectory() as folder:
        together = VirtualDeployment(Path(folder), spec)
        together.define()
        ends = [(20, 1), (21, 9), (22, 8), (23, 1), (70, 7)]
        for what, forward, value, answered in [("p1", 1, 1, True), *steps, *(("p1", *e, True) for e in ends)]:
            ts = max(0, newest + forward)
            if what == "delete":
                together.cluster.operate("p1", Delete(ts, ts + 5), PHYS)
                v = {t: cell for t, cell in v.items() if not ts <= t <= ts + 5}
            else:
                together.put(what, ts, value)
                if what == "p1":
                    v[ts] = value
                else:
                    w.add(ts)
                newest = max(newest, ts)
            together.run()
            if answered:
                together.answer()
        together.answer()
        same_but_empty(name, together.windows(), truth(spec, merged(v, w), newest))


def closed(together: Any) -> set[tuple[Any, ...]]:
    return {(e.group.table or e.group.key, e.start, e.end) for e in together.events if e.kind == "CLOSE"}


def test_by_hand_reads_the_sources_and_ignores_children_that_were_made_later(
    kit: Any, tmp_path: Path
) -> None:
    late = Child("d", "virt", "c3", (1,), created=CREATED + 1, origins=(None, V["p2"], None))
    together = VirtualDeployment(
        tmp_path, msgspec.structs.replace(virtual(kit, "session"), notify=None), more=(late,)
    )
    for source, ts in (("p1", 1), ("plain", 4), ("p1", 20), ("p2", 2), ("p2", 30)):
        together.put(source, ts, 1)
    together.run()
    together.define()
    together.run()
    together.cluster.control(control.RecalculateStream(together.spec.uid, 0, None))
    together.run()
    together.answer()
    assert closed(together) == {("c1", 1, 4), ("c2", 2, 2)}


@pytest.mark.parametrize("partition", [(), ("k",)])
def test_history_of_groups_of_several_tables(kit: Any, tmp_path: Path, partition: tuple[str, ...]) -> None:
    spec = msgspec.structs.replace(virtual(kit, "session", fill_history_first=ALL), partition=partition)
    together = VirtualDeployment(tmp_path, spec)
    for source, ts in (("p1", 1), ("plain", 4), ("p2", 8), ("p2", 30)):
        together.put(source, ts, 1)
    together.run()
    together.define()
    together.run()
    together.put("p1", 33, 1)
    together.put("p2", 50, 1)
    together.run()
    together.answer()
    together.put("p1", 70, 1)
    together.run()
    assert closed(together) == {((1,) if partition else (), *span) for span in ((1, 8), (30, 33), (50, 50))}


def test_what_came_while_the_history_is_read_is_not_history(kit: Any, tmp_path: Path) -> None:
    together = VirtualDeployment(tmp_path, virtual(kit, "count", fill_history_first=ALL))
    for ts in (1, 2):
        together.put("p1", ts, 1)
    together.run()
    together.define()
    for ts in (3, 4, 5, 6):
        together.put("p1", ts, 1)
    together.run()
    work = Work()
    list(together.answers.answer(together.requests, (0, 1), work))
    assert work.rows == 2
    together.answer()
    told = [(e.kind, e.start, e.cause) for e in together.events if e.kind == "CLOSE"]
    assert told == [("CLOSE", 1, "LIVE"), ("CLOSE", 4, "LIVE")]
