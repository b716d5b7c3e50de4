"""Virtual tables are read from their sources: rows of one time are one row, what is missing is NULL."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from calc_svc.jobs.counts import members_of
from calc_svc.jobs.sources import Moment, moments_of, one_relation, set_relation
from millrace_core.errors import MillraceError
from millrace_core.model.schema import Child, Column, Database, Origin, Table
from millrace_core.model.stream import Duration, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_query, plan_stream, trigger_relation
from millrace_core.store.place import place_of
from millrace_core.trigger.types import Session
from millrace_core.wire import dead, topics, virtual
from millrace_core.wire.events import Group, TriggerEvent
from millrace_core.wire.operations import Drop, encode_operation
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message, replay

from .conftest import Running

INT, TEXT = DataType("INT"), DataType("VARCHAR", 8)
METERS = Table(
    "a", "meters", "super", 7, "ms",
    (Column("ts", TIMESTAMP), Column("amps", INT), Column("note", TEXT)), (Column("site", INT),),
)  # fmt: skip
PLAIN = Table("b", "plain", "normal", 8, "ms", (Column("t", TIMESTAMP), Column("v", INT)))
M1, M2 = Child("a", "meters", "m1", (1,)), Child("a", "meters", "m2", (2,))
AMPS1, NOTE1 = Origin("a", "meters", 7, "m1", "amps"), Origin("a", "meters", 7, "m1", "note")
AMPS2, V = Origin("a", "meters", 7, "m2", "amps"), Origin("b", "plain", 8, "plain", "v")
PAIR = Table(
    "d", "pair", "normal", 9, "ms",
    (Column("ts", TIMESTAMP), Column("x", INT), Column("y", INT), Column("z", INT), Column("free", INT)),
    virtual=True, origins=(None, AMPS1, V, AMPS2, None),
)  # fmt: skip
VIRT = Table(
    "d", "virt", "super", 10, "ms", (Column("ts", TIMESTAMP), Column("x", INT), Column("s", TEXT)),
    (Column("k", INT),), virtual=True,
)  # fmt: skip
C1 = Child("d", "virt", "c1", (10,), origins=(None, AMPS1, NOTE1))
C2 = Child("d", "virt", "c2", (20,), origins=(None, AMPS2, None))
C3 = Child("d", "virt", "c3", (20,), origins=(None, V, NOTE1))


class System(Running):
    """The tables of three databases, one of them virtual."""

    partitions = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.define(Database("a"), Database("b"), Database("d"))
        self.define(METERS, PLAIN, M1, M2, PAIR, VIRT, C1, C2, C3)
        self.start()

    def write(self, name: str, *rows: dict[str, Any]) -> int:
        """The offset of the message."""
        table = PLAIN if name == "plain" else METERS
        message = Message(wal_topic(table.db, table.name), name.encode(), msgspec.json.encode(rows))
        return self.log.append([message])[0][1]

    def forward(self, table: Table, name: str, origin: virtual.Origin, *rows: dict[str, Any]) -> None:
        """As a slot of trigger-svc does."""
        sent = virtual.Forwarded(origin, (1,), msgspec.Raw(msgspec.json.encode(rows)))
        self.log.append([Message(wal_topic(table.db, table.name), name.encode(), virtual.encode(sent))])

    def select(self, sql: str) -> list[dict[str, Any]]:
        """The rows of the one relation that a query reads."""
        self.wait()
        with self.catalog.lock:
            (source,) = plan_query(sql, "d", self.catalog.catalog, "UTC", 0).sources
        found = one_relation(source, self.store)
        assert isinstance(found, pa.Table)
        return [{name: row[name] for name in row if name != "ts"} for row in found.to_pylist()]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def rows_of(system: System, table: Table) -> dict[tuple[str, int], tuple[Any, ...]]:
    system.wait()
    view = system.store.readable(table).view()
    data, child = view.slices.within(-(2**63), 2**63 - 1)
    names = view.described["tbname"].to_list()
    return {(names[c], row[0]): row for c, row in zip(child.tolist(), data.iter_rows(), strict=True)}


def test_rows_of_one_time_are_one_row(system: System) -> None:
    system.write("plain", {"t": 2, "v": 10}, {"t": 4, "v": 20})
    system.write("m1", {"ts": 1, "amps": 1}, {"ts": 4, "amps": 2})
    system.write("m2", {"ts": 4, "amps": None}, {"ts": 5})
    assert rows_of(system, PAIR) == {
        ("pair", 1): (1, 1, None, None, None),
        ("pair", 2): (2, None, 10, None, None),
        ("pair", 4): (4, 2, 20, None, None),
        ("pair", 5): (5, None, None, None, None),
    }


def test_children_with_tags_and_names(system: System) -> None:
    system.write("m1", {"ts": 1, "amps": 1, "note": "a"})
    system.write("m2", {"ts": 1, "amps": 2, "note": "b"})
    system.write("plain", {"t": 3, "v": 3})
    assert rows_of(system, VIRT) == {
        ("c1", 1): (1, 1, "a"), ("c2", 1): (1, 2, None), ("c3", 1): (1, None, "a"), ("c3", 3): (3, 3, None)
    }  # fmt: skip
    assert system.select("SELECT x, k, tbname FROM virt") == [
        {"x": 1, "k": 10, "tbname": "c1"}, {"x": 2, "k": 20, "tbname": "c2"},
        {"x": None, "k": 20, "tbname": "c3"}, {"x": 3, "k": 20, "tbname": "c3"},
    ]  # fmt: skip
    assert system.select("SELECT x FROM c2") == [{"x": 2}]


def test_against_an_oracle(system: System) -> None:
    rng = random.Random(7)
    known: dict[str, dict[int, dict[str, Any]]] = {"m1": {}, "m2": {}, "plain": {}}
    for _ in range(60):
        name = rng.choice(list(known))
        key, value = ("t", "v") if name == "plain" else ("ts", "amps")
        row: dict[str, Any] = {key: rng.randrange(20)}
        if rng.random() < 0.8:
            row[value] = rng.choice([None, rng.randrange(100)])
        system.write(name, row)
        known[name].setdefault(row[key], {}).update(row)
    times = set().union(*known.values())
    expected = {
        ("pair", ts): (
            ts, known["m1"].get(ts, {}).get("amps"), known["plain"].get(ts, {}).get("v"),
            known["m2"].get(ts, {}).get("amps"), None,
        )
        for ts in times
    }  # fmt: skip
    assert rows_of(system, PAIR) == expected
    system.life.stop()
    system.start()
    assert rows_of(system, PAIR) == expected


def test_slices_for_many_triggers(system: System) -> None:
    system.write("m1", *({"ts": ts, "amps": ts} for ts in range(10)))
    system.write("m2", *({"ts": ts, "amps": -ts} for ts in range(10)))
    system.wait()
    with system.catalog.lock:
        (source,) = plan_query(
            "SELECT ts, x, tbname FROM virt", "d", system.catalog.catalog, "UTC", 0
        ).sources
    relation = pl.DataFrame({"_tid": [0, 1]}, schema={"_tid": pl.Int32})
    moments = [Moment(relation, place, Group(0, (), None)) for place in (0, 1)]
    found = set_relation(source, system.store, moments, (), 1_000).to_pylist()
    assert len(found) == 2 * 30
    assert {row["_tid"] for row in found} == {0, 1}
    view = system.store.readable(VIRT).view(3, 5)
    family = system.store.readable(VIRT).family
    child = family.group({"k": 20})
    counted = view.slices.count(child, np.full(2, 3), np.full(2, 5))
    assert counted.tolist() == [3, 3]  # c3 has its rows from m1's note


@pytest.mark.parametrize("partition", [(), ("k",)])
def test_trows_has_no_rows_of_a_child_that_came_after_the_stream(
    system: System, partition: tuple[str, ...]
) -> None:
    """Seed 000: such a child does not trigger. The query of a user reads it."""
    system.define(Child("d", "virt", "c4", (10,), created=6, origins=(None, AMPS2, None)))
    system.write("m1", {"ts": 1, "amps": 1}, {"ts": 2, "amps": 2})
    system.write("m2", {"ts": 1, "amps": 30})
    system.wait()
    query = "SELECT _twstart AS ts, x, tbname FROM %%trows"
    spec = StreamSpec(
        9, "d", "s", query, Session(Duration(1, "s")), Source(VIRT), partition, query=query, created=5
    )
    group = Group(1 if partition else 0, (10,) if partition else (), None)
    events = [TriggerEvent(str(at), "CLOSE", "LIVE", group, 1, end, -1, 1) for at, end in enumerate((1, 2))]
    with system.catalog.lock:
        (source,) = plan_stream(spec, system.catalog.catalog).sources
    moments = moments_of(spec, trigger_relation(spec, events), events)
    expected = [{"c1"} if partition else {"c1", "c2", "c3"}] * 2
    whole = set_relation(source, system.store, moments, partition, 1_000).to_pylist()
    assert [{row["tbname"] for row in whole if row["_tid"] == tid} for tid in (0, 1)] == expected
    for moment, names in zip(moments, expected, strict=True):
        alone = one_relation(source, system.store, moment, partition)
        assert isinstance(alone, pa.Table)
        assert {row["tbname"] for row in alone.to_pylist()} == names
    family = system.store.readable(VIRT)
    numbers = family.family.numbers
    assert set(members_of(spec, family, group).tolist()) == {
        numbers[name] for name in (("c1",) if partition else ("c1", "c2", "c3"))
    }
    assert {row["tbname"] for row in system.select("SELECT tbname FROM virt")} == {"c1", "c2", "c3", "c4"}


def test_a_source_that_is_gone_is_null_even_if_its_name_comes_again(system: System) -> None:
    system.write("m1", {"ts": 1, "amps": 1, "note": "a"})
    system.write("plain", {"t": 1, "v": 1})
    system.wait()
    end = Message(wal_topic("a", "meters"), b"m1", encode_operation(Drop()))
    system.log.append([end])
    system.undefine(M1)
    system.undefine(PLAIN)
    system.wait()
    assert rows_of(system, PAIR) == {}
    system.define(msgspec.structs.replace(M1, incarnation=1), msgspec.structs.replace(PLAIN, uid=80))
    system.write("m2", {"ts": 3, "amps": 3})
    assert rows_of(system, PAIR) == {("pair", 3): (3, None, None, 3, None)}


def test_children_come_and_go(system: System) -> None:
    system.write("m1", {"ts": 1, "amps": 1})
    assert {name for name, _ in rows_of(system, VIRT)} == {"c1", "c3"}
    system.undefine(C3)
    system.define(Child("d", "virt", "c4", (5,), origins=(None, AMPS1, None)))
    assert {name for name, _ in rows_of(system, VIRT)} == {"c1", "c4"}
    system.undefine(VIRT)
    system.wait()
    with pytest.raises(MillraceError):
        system.store.readable(VIRT)


def test_what_a_trigger_has_seen_is_waited_for_at_the_sources(system: System) -> None:
    system.wait()
    offset = system.write("m1", {"ts": 1, "amps": 1})
    here = virtual.Origin("wal.a.meters", 7, "m1", 0, offset)
    system.forward(PAIR, "pair", here, {"ts": 1, "x": 1})
    system.wait()
    assert rows_of(system, PAIR)[("pair", 1)][1] == 1
    system.forward(PAIR, "pair", msgspec.structs.replace(here, offset=offset + 1), {"ts": 2, "x": 1})
    with pytest.raises(MillraceError):
        system.store.wait(0, {"wal.d.pair": {0: 2}}, 0.5)
    system.store.wait(0, {"wal.d.pair": {0: 1}}, 5)
    system.write("m1", {"ts": 2, "amps": 1})
    system.store.wait(0, {"wal.d.pair": {0: 2}}, 5)
    # of a table that is gone nothing is waited for
    system.forward(PAIR, "pair", msgspec.structs.replace(here, uid=99, offset=1_000), {"ts": 2, "x": 1})
    system.store.wait(0, {"wal.d.pair": {0: 3}}, 5)


def test_rows_written_in_a_stretch_of_its_topic(system: System) -> None:
    for ts in range(4):
        offset = system.write("m1", {"ts": ts, "amps": ts})
        system.forward(VIRT, "c1", virtual.Origin("wal.a.meters", 7, "m1", 0, offset), {"ts": ts, "x": ts})
    system.wait()
    view = system.store.readable(VIRT).written(((place_of(0, 1), place_of(0, 3)),))
    data, _ = view.slices.within(-(2**63), 2**63 - 1)
    assert data["ts"].to_list() == [1, 2]
    nothing, _ = system.store.readable(VIRT).written(()).slices.within(-(2**63), 2**63 - 1)
    assert len(nothing) == 0


def test_a_message_that_no_slot_sent_is_a_dead_letter(system: System) -> None:
    system.log.append([Message("wal.d.pair", b"pair", b'{"ts": 1, "x": 1}')])
    system.log.append([Message("wal.d.virt", b"c1", encode_operation(Drop()))])
    system.wait()
    letters = [dead.decode(record.value or b"") for record in replay(system.log, topics.DEAD_LETTERS.name)]
    assert [letter.topic for letter in letters] == ["wal.d.pair"]
    assert rows_of(system, PAIR) == {}
