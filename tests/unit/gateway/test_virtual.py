"""Virtual tables: what DDL leaves in the catalog, what it refuses, and what trigger-svc is told."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.errors import ErrorCode, Position
from millrace_core.model.schema import Origin
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.wire import control, events
from millrace_core.wire.topics import slot_of
from millrace_core.wire.virtual import Link
from millrace_wal import Message

STREAM = (
    "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM {} INTO out"
    " AS SELECT _twstart AS ts, count(*) AS n FROM {}"
)


@pytest.fixture
def tables(rig: Any) -> Any:
    rig("CREATE DATABASE e", None)
    rig("CREATE DATABASE n PRECISION 'ns'", None)
    rig("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT, note VARCHAR(8)) TAGS (site INT)")
    rig("CREATE TABLE m1 USING meters TAGS (1) m2 USING meters TAGS (2)")
    rig("CREATE TABLE e.plain (ts TIMESTAMP, v INT)")
    rig("CREATE TABLE n.fine (ts TIMESTAMP, v INT)")
    rig("CREATE TABLE keyed (ts TIMESTAMP, k INT COMPOSITE KEY, v INT)")
    rig("CREATE VTABLE pair (ts TIMESTAMP, a FLOAT FROM m1.amps, v INT FROM e.plain.v, free INT)")
    rig("CREATE STABLE virt (ts TIMESTAMP, amps FLOAT, v INT) TAGS (k INT) VIRTUAL 1")
    rig("CREATE VTABLE c1 (amps FROM m1.amps) USING virt TAGS (1)")
    rig("CREATE VTABLE c2 (d.m2.amps, e.plain.v) USING virt (k) TAGS (2)")
    return rig


def test_a_virtual_table_knows_its_columns_origins(tables: Any) -> None:
    catalog = tables.gateway.context.catalog
    meters, plain = catalog.tables["d", "meters"].uid, catalog.tables["e", "plain"].uid
    pair, virt = catalog.tables["d", "pair"], catalog.tables["d", "virt"]
    amps, v = Origin("d", "meters", meters, "m1", "amps"), Origin("e", "plain", plain, "plain", "v")
    assert (pair.kind, pair.virtual, pair.origins) == ("normal", True, (None, amps, v, None))
    assert (virt.kind, virt.virtual, virt.origins) == ("super", True, ())
    assert catalog.children["d", "c1"].origins == (None, amps, None)
    assert catalog.children["d", "c2"].origins == (None, Origin("d", "meters", meters, "m2", "amps"), v)
    assert tables.records("wal.d.virt") == [] == tables.records("wal.d.pair")
    tables.restart()
    assert tables.gateway.context.catalog.tables["d", "pair"] == pair


def test_a_name_is_taken_unless_it_may_be(tables: Any) -> None:
    assert tables("CREATE VTABLE IF NOT EXISTS pair (ts TIMESTAMP, a FLOAT FROM m1.amps)").rows == [[0]]
    assert tables("CREATE VTABLE IF NOT EXISTS c1 (amps FROM m2.amps) USING virt TAGS (1)").rows == [[0]]
    error = tables.refused("CREATE VTABLE c1 (amps FROM m2.amps) USING virt TAGS (1)")
    assert (error.code, error.position) == (ErrorCode.TABLE_EXISTS, Position(1, 15))


@pytest.mark.parametrize(("sql", "code", "column"), [
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM absent.v)", ErrorCode.UNKNOWN_TABLE, 43),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM x.plain.v)", ErrorCode.UNKNOWN_DATABASE, 43),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM e.plain.w)", ErrorCode.UNKNOWN_COLUMN, 51),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM m1.site)", ErrorCode.UNKNOWN_COLUMN, 46),
    ("CREATE VTABLE v (ts TIMESTAMP, a BIGINT FROM e.plain.v)", ErrorCode.TYPE_MISMATCH, 54),
    ("CREATE VTABLE v (ts TIMESTAMP, a VARCHAR(9) FROM m1.note)", ErrorCode.TYPE_MISMATCH, 53),
    ("CREATE VTABLE v (ts TIMESTAMP, a FLOAT FROM meters.amps)", ErrorCode.NOT_ALLOWED, 45),
    ("CREATE VTABLE v (ts TIMESTAMP, a FLOAT FROM c1.amps)", ErrorCode.NOT_ALLOWED, 45),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM n.fine.v)", ErrorCode.NOT_ALLOWED, 43),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT FROM keyed.v)", ErrorCode.NOT_ALLOWED, 43),
    ("CREATE VTABLE v (ts TIMESTAMP FROM m1.ts, a INT)", ErrorCode.NOT_ALLOWED, 18),
    ("CREATE VTABLE v (ts TIMESTAMP, a INT COMPOSITE KEY)", ErrorCode.NOT_ALLOWED, 32),
    ("CREATE TABLE v (ts TIMESTAMP, a INT FROM e.plain.v)", ErrorCode.NOT_ALLOWED, 31),
    ("CREATE STABLE w (t TIMESTAMP, a INT FROM e.plain.v) TAGS (k INT) VIRTUAL 1", ErrorCode.NOT_ALLOWED, 31),
    ("CREATE VTABLE c (w FROM e.plain.v) USING virt TAGS (1)", ErrorCode.UNKNOWN_COLUMN, 18),
    ("CREATE VTABLE c (ts FROM m1.ts) USING virt TAGS (1)", ErrorCode.UNKNOWN_COLUMN, 18),
    ("CREATE VTABLE c (v FROM e.plain.v, v FROM e.plain.v) USING virt TAGS (1)", ErrorCode.INVALID_VALUE, 36),
    ("CREATE VTABLE c (m1.amps, e.plain.v, e.plain.v) USING virt TAGS (1)", ErrorCode.SYNTAX, 38),
    ("CREATE VTABLE c (amps FROM m1.amps) USING meters TAGS (1)", ErrorCode.NOT_ALLOWED, 43),
    ("CREATE TABLE c USING virt TAGS (1)", ErrorCode.NOT_ALLOWED, 22),
    ("INSERT INTO pair VALUES (1, 1, 1, 1)", ErrorCode.NOT_ALLOWED, 13),
    ("INSERT INTO c1 VALUES (1, 1, 1)", ErrorCode.NOT_ALLOWED, 13),
    ("INSERT INTO c9 USING virt TAGS (1) VALUES (1, 1, 1)", ErrorCode.NOT_ALLOWED, 22),
    ("DELETE FROM pair WHERE ts > 0", ErrorCode.NOT_ALLOWED, 13),
    ("DROP VTABLE m1", ErrorCode.NOT_ALLOWED, 13),
    ("SHOW CREATE VTABLE m1", ErrorCode.NOT_ALLOWED, 20),
])  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(tables: Any, sql: str, code: ErrorCode, column: int) -> None:
    error = tables.refused(sql)
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_a_virtual_table_is_no_output(tables: Any) -> None:
    tables.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    error = tables.refused(STREAM.format("m1", "m1").replace("out", "pair"))
    assert "virtual" in error.message


def test_dropping(tables: Any) -> None:
    tables("DROP VTABLE pair, c1")
    assert tables("SHOW VTABLES").rows == [["c2"]]
    tables("DROP STABLE virt")
    assert tables("SHOW VTABLES").rows == []


def test_shows(tables: Any) -> None:
    assert tables("SHOW VTABLES").rows == [["c1"], ["c2"], ["pair"]]
    assert tables("SHOW TABLES").rows == [["keyed"], ["m1"], ["m2"]]
    assert tables("SHOW STABLES").rows == [["meters"], ["virt"]]
    assert tables("DESCRIBE c2").rows == [
        ["ts", "TIMESTAMP", 8, "", None],
        ["amps", "FLOAT", 4, "", "d.m2.amps"],
        ["v", "INT", 4, "", "e.plain.v"],
        ["k", "INT", 4, "TAG", None],
    ]
    assert len(tables("DESCRIBE virt").rows[0]) == 4


@pytest.mark.parametrize("name", ["pair", "c1", "c2", "virt"])
def test_the_statement_shown_makes_the_same_table_again(tables: Any, name: str) -> None:
    catalog = tables.gateway.context.catalog
    before = catalog.find("d", name)
    kind = "STABLE" if name == "virt" else "VTABLE"
    ((_, text),) = tables(f"SHOW CREATE {kind} {name}").rows
    tables(f"DROP {kind} {name}")
    tables(text)
    again = catalog.find("d", name)
    table, child = again if name in ("c1", "c2") else (again[0], None)
    if child is not None:
        assert (child.origins, child.tags) == (before[1].origins, before[1].tags)
    else:
        assert (table.columns, table.tags, table.origins, table.virtual) == (
            before[0].columns, before[0].tags, before[0].origins, True,
        )  # fmt: skip


def test_the_slots_of_the_sources_are_told(tables: Any) -> None:
    tables.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    tables("INSERT INTO e.plain VALUES (1, 1)")
    tables(STREAM.format("pair", "pair"))
    catalog, slots = tables.gateway.context.catalog, tables.gateway.context.settings.slots
    uid = catalog.streams["d", "s"].spec.uid
    *told, define = tables.controls()
    assert isinstance(define, control.DefineStream)
    by_slot = {record.slot: record for record in told}
    links = {
        Link("wal.d.meters", "m1", "pair", (("amps", "a"),)),
        Link("wal.e.plain", "plain", "pair", (("v", "v"),)),
    }
    assert {link for record in told for link in record.links} == links
    for link in links:
        record = by_slot[slot_of(link.topic, link.source.encode(), slots)]
        assert link in record.links
        assert (record.stream, record.table.name) == (uid, "pair")
        assert record.live_from[link.topic] == tables.log.end_offsets(link.topic)
    ends = {topic: tables.log.end_offsets(topic) for topic in ("wal.d.meters", "wal.e.plain")}
    assert define.origins == ends
    tables("STOP STREAM s")
    assert tables.controls()[-1].origins == ends
    tables("START STREAM s")
    assert tables.controls()[-1].origins == ends


def test_a_dropped_source_is_no_source_of_new_streams(tables: Any) -> None:
    tables.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    tables("DROP TABLE m1")
    tables("CREATE TABLE m1 USING meters TAGS (1)")
    tables(STREAM.format("virt PARTITION BY tbname", "%%tbname"))
    told = [record for record in tables.controls() if isinstance(record, control.KnowOrigins)]
    assert {(link.source, link.target) for record in told for link in record.links} == {
        ("m2", "c2"), ("plain", "c2")
    }  # fmt: skip


def test_a_database_that_a_virtual_tables_stream_reads_stays(tables: Any) -> None:
    tables.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    tables(STREAM.format("pair", "pair"))
    assert tables.refused("DROP DATABASE e").code is ErrorCode.DATABASE_IN_USE
    tables("DROP DATABASE e FORCE")


def test_a_stream_that_would_feed_itself_through_a_virtual_table_is_refused(tables: Any) -> None:
    tables.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    error = tables.refused(STREAM.format("pair", "pair").replace("INTO out", "INTO e.plain"))
    assert error.code is ErrorCode.BAD_STREAM


def judged(rig: Any) -> dict[str, list[tuple[int, int]]]:
    """All that the slots of trigger-svc make of the log: closed windows of each table."""
    slots = rig.gateway.context.settings.slots
    hosts = {number: Slot(number, slots) for number in range(slots)}
    found: dict[str, list[tuple[int, int]]] = {}
    taken: set[tuple[str, int, int]] = set()
    while True:
        fresh = [
            record
            for topic in ("control", *rig.log.topics("wal."))
            for record in sorted(rig.records(topic), key=lambda record: record.offset)
            if (record.topic, record.partition, record.offset) not in taken
        ]
        if not fresh:
            return found
        taken |= {(record.topic, record.partition, record.offset) for record in fresh}
        for number, host in hosts.items():
            mine = [
                (r.topic, r.partition, r.offset, 0, r.key, r.value)
                for r in fresh
                if r.topic == "control" or slot_of(r.topic, r.key, slots) == number
            ]
            for topic, key, value in host.on_batch(Messages.of(mine)) if mine else ():
                if topic == "triggers":
                    for event in events.decode(value).events:
                        found.setdefault(event.group.table or "", []).append((event.start, event.end))
                elif topic.startswith("wal."):
                    rig.log.append([Message(topic, key, value)])


def test_what_the_gateway_tells_makes_the_slots_judge(rig: Any) -> None:
    rig.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    rig("CREATE STABLE phys (ts TIMESTAMP, st INT) TAGS (k INT)")
    rig("CREATE TABLE ph1 USING phys TAGS (1) ph2 USING phys TAGS (2)")
    rig("CREATE STABLE virt (ts TIMESTAMP, st INT) TAGS (k INT) VIRTUAL 1")
    rig("CREATE VTABLE vc1 (st FROM ph1.st) USING virt TAGS (1)")
    rig("CREATE VTABLE vc2 (st FROM ph2.st) USING virt TAGS (2)")
    rig(
        "CREATE STREAM s_all STATE_WINDOW(st) FROM virt PARTITION BY tbname INTO all_out "
        "AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
    )
    rig("INSERT INTO ph1 VALUES (60000, 1) (62000, 1) (64000, 2)")
    rig("INSERT INTO ph2 VALUES (61000, 5) (63000, 6) (65000, 6) (66000, 5)")
    assert judged(rig) == {"vc1": [(60000, 62000)], "vc2": [(61000, 61000), (63000, 65000)]}
