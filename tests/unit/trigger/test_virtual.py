"""Streams on virtual tables: rows of source tables, which other slots hold, are judged as one table's."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire import control, virtual
from millrace_core.wire.operations import Delete, Drop
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import slot_of, wal_topic
from millrace_core.wire.virtual import Link

INT = DataType("INT")
SUPER = Table("a", "phys", "super", 3, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("k", INT),))
PLAIN = Table("a", "plain", "normal", 4, "ms", (Column("t", TIMESTAMP), Column("w", INT)))
PAIR = Table(
    "d",
    "pair",
    "normal",
    9,
    "ms",
    (Column("ts", TIMESTAMP), Column("x", INT), Column("y", INT)),
    virtual=True,
)
VIRT = Table(
    "d",
    "virt",
    "super",
    10,
    "ms",
    (Column("ts", TIMESTAMP), Column("x", INT)),
    (Column("k", INT),),
    virtual=True,
)
SOURCES = {"phys": SUPER, "plain": PLAIN}
STATE = {"State": {"column": "x", "extend": 0, "true_for": None}}


def link(table: Table, source: str, target: str, *columns: tuple[str, str]) -> Link:
    return Link(wal_topic(table.db, table.name), source, target, columns)


TO_PAIR = (link(SUPER, "p1", "pair", ("v", "x")), link(PLAIN, "plain", "pair", ("w", "y")))


class Bench:
    """A cluster with streams on virtual tables."""

    def __init__(self, kit: Any) -> None:
        self.kit = kit
        self.cluster = kit.Cluster()

    def ends(self) -> dict[str, control.Offsets]:
        topics = (wal_topic(table.db, table.name) for table in SOURCES.values())
        return {topic: {0: self.cluster.ends.get(topic, 0)} for topic in topics}

    def define(self, spec: Any, *links: Link) -> None:
        for number in range(self.cluster.slots):
            mine = tuple(one for one in links if slot_of(one.topic, one.source.encode(), 3) == number)
            if mine:
                self.cluster.control(
                    control.KnowOrigins(
                        number, spec.uid, spec.source.table, (SUPER, PLAIN), self.ends(), mine
                    )
                )
        self.cluster.define(spec)

    def write(self, name: str, *rows: tuple[int, int | None]) -> None:
        """Rows (time, value) of ``plain``, or of a child of ``phys``."""
        table = SOURCES.get(name, SUPER)
        key, value = (column.name for column in table.columns)
        sent = encode_rows([{key: ts, value: cell} for ts, cell in rows])
        self.cluster.send(wal_topic(table.db, table.name), name.encode(), sent)

    def run(self) -> dict[str, list[str]]:
        self.cluster.run()
        return dict(self.cluster.live())


@pytest.fixture
def bench(kit: Any) -> Bench:
    return Bench(kit)


def test_rows_of_two_tables_are_one_tables_rows(bench: Bench) -> None:
    bench.define(bench.kit.stream(table=PAIR, partition=()), *TO_PAIR)
    bench.write("plain", (2, 10), (4, 20))
    bench.write("p1", (1, 1), (4, 2))
    bench.run()
    bench.write("p1", (12, 4))
    assert bench.run() == {"pair": ["CLOSE 0-10 x*"]}


def test_a_repeated_message_of_a_slot_counts_once(bench: Bench) -> None:
    receiver = slot_of("wal.d.pair", b"pair", 3)
    name = next(f"q{i}" for i in range(9) if slot_of("wal.a.phys", f"q{i}".encode(), 3) != receiver)
    sender = slot_of("wal.a.phys", name.encode(), 3)
    bench.define(bench.kit.stream(table=PAIR, partition=()), link(SUPER, name, "pair", ("v", "x")))
    bench.run()
    before = dict(bench.cluster.blobs)
    bench.write(name, (1, 1), (2, 2))
    batch = list(bench.cluster.waiting)
    bench.run()
    # the sender's batch runs again, as after a crash between its output and its checkpoint
    bench.cluster.blobs[sender] = before[sender]
    bench.cluster.waiting = batch
    bench.run()
    assert bench.cluster.ends["wal.d.pair"] == 2
    bench.write(name, (12, 4))
    assert bench.run() == {"pair": ["CLOSE 0-10 x2"]}


def test_a_state_is_not_changed_by_another_tables_row_of_the_same_time(bench: Bench) -> None:
    bench.define(bench.kit.stream(table=PAIR, partition=(), trigger=STATE), *TO_PAIR)
    bench.write("p1", (1, 5), (2, 5))
    bench.run()
    bench.write("plain", (1, 1), (2, 2), (3, 3))
    bench.run()
    bench.write("p1", (3, 5), (4, 6))
    (told,) = bench.run()["pair"]
    assert told.startswith("CLOSE 1-3")


def test_each_child_of_a_virtual_super_table_is_a_group(bench: Bench) -> None:
    to_virt = (link(SUPER, "p1", "c1", ("v", "x")), link(SUPER, "p2", "c2", ("v", "x")))
    bench.define(bench.kit.stream(table=VIRT, trigger=STATE), *to_virt)
    bench.write("p1", (0, 1), (2, 1), (4, 2))
    bench.write("p2", (1, 5), (3, 6), (5, 6), (6, 5))
    bench.write("p3", (1, 5), (3, 6))
    assert bench.run() == {"c1": ["CLOSE 0-2 x2"], "c2": ["CLOSE 1-1 x1", "CLOSE 3-5 x2"]}


def test_an_older_stream_ignores_children_that_came_later(bench: Bench) -> None:
    first, second = bench.kit.stream(1, table=VIRT), bench.kit.stream(2, table=VIRT)
    bench.define(first, link(SUPER, "p1", "c1", ("v", "x")))
    bench.define(second, link(SUPER, "p1", "c1", ("v", "x")), link(SUPER, "p2", "c2", ("v", "x")))
    bench.write("p1", (1, 1), (11, 1))
    bench.write("p2", (1, 1), (11, 1))
    bench.run()
    assert bench.cluster.live(1) == {"c1": ["CLOSE 0-10 x1"]}
    assert bench.cluster.live(2) == {"c1": ["CLOSE 0-10 x1"], "c2": ["CLOSE 0-10 x1"]}


def test_only_rows_written_while_it_runs_count(bench: Bench) -> None:
    bench.write("p1", (1, 1))
    spec = bench.kit.stream(table=PAIR, partition=())
    bench.define(spec, *TO_PAIR)
    bench.write("p1", (2, 1))
    bench.run()
    bench.cluster.control(control.StopStream(1))
    bench.run()
    bench.write("p1", (3, 1))
    end = {0: bench.cluster.ends["wal.d.pair"]}
    bench.cluster.control(control.StartStream(1, end, 1, bench.ends()))
    bench.write("p1", (4, 1), (11, 1))
    assert bench.run() == {"pair": ["CLOSE 0-10 x2"]}


def test_a_dropped_source_gives_no_rows_any_more(bench: Bench) -> None:
    bench.define(bench.kit.stream(table=PAIR, partition=()), *TO_PAIR)
    bench.write("p1", (1, 1))
    bench.cluster.operate("p1", Drop(), SUPER)
    bench.write("p1", (2, 1))
    bench.write("plain", (3, 1), (11, 1))
    bench.run()
    bench.cluster.control(control.DropTable(PLAIN.uid, "wal.a.plain"))
    bench.write("plain", (21, 1))
    assert bench.run() == {"pair": ["CLOSE 0-10 x2"]}


def test_a_message_that_no_slot_sent_is_passed_over(bench: Bench) -> None:
    bench.define(bench.kit.stream(table=PAIR, partition=()), *TO_PAIR)
    bench.cluster.send("wal.d.pair", b"pair", b'{"ts": 5, "x": 1}')
    bench.write("p1", (1, 1), (11, 1))
    assert bench.run() == {"pair": ["CLOSE 0-10 x1"]}


def test_a_dropped_child_of_a_virtual_super_table_ends(bench: Bench) -> None:
    bench.define(bench.kit.stream(table=VIRT), link(SUPER, "p1", "c1", ("v", "x")))
    bench.write("p1", (1, 1))
    bench.run()
    bench.cluster.operate("c1", Drop(), VIRT)
    bench.run()
    bench.write("p1", (2, 1), (11, 1))
    assert bench.run() == {}
    assert bench.cluster.totals() == {"unknown_table": 2}


def test_a_deletion_reaches_the_virtual_table(bench: Bench) -> None:
    sent: list[bytes] = []
    passes_on = bench.cluster.send

    def send(topic: str, key: bytes | None, value: bytes | None) -> None:
        if topic == "wal.d.pair":
            sent.append(value or b"")
        passes_on(topic, key, value)

    bench.cluster.send = send
    bench.define(bench.kit.stream(table=PAIR, partition=()), *TO_PAIR)
    bench.write("p1", (1, 1), (11, 1))
    bench.run()
    bench.cluster.operate("p1", Delete(0, 5), SUPER)
    bench.cluster.operate("p9", Delete(0, 5), SUPER)
    bench.run()
    assert [virtual.decode(value).deleted for value in sent] == [None, (0, 5)]
