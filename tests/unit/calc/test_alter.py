"""Altered tables in the store: rows of before and after, in memory and in files, across restarts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from calc_svc.jobs.sources import one_relation
from millrace_core.errors import ErrorCode, PlanError
from millrace_core.model.revisions import altered
from millrace_core.model.schema import Child, Column, Table
from millrace_core.model.types import DataType
from millrace_core.plan import SourceUse
from millrace_core.wire.operations import Altered, Retag
from millrace_core.wire.topics import CATALOG, wal_topic
from millrace_wal import MemoryLog, Record

from .conftest import METERS, PLAIN, Running, eventually, row

INT = DataType("INT")


def change(
    running: Running, table: Table, columns: tuple[Column, ...], tags: tuple[Column, ...] = ()
) -> Table:
    """What the gateway does for an ALTER: definition, then the marks in the topic."""
    ends = running.log.end_offsets(wal_topic(table.db, table.name))
    new = altered(table, columns, tags or table.tags, ends)
    running.define(new)
    mark(running, new)
    return new


def mark(running: Running, table: Table) -> None:
    for key in range(16):
        running.send(f"\0{key}", Altered(table.version), table)


def read(running: Running, words: Table, *names: str) -> list[tuple[object, ...]]:
    running.wait()
    found = one_relation(SourceUse("r", "table", words, names), running.store)
    return sorted(pl.DataFrame(pl.from_arrow(found)).rows())


def test_columns_come_go_and_come_again(running: Running) -> None:
    ts, amps, note = METERS.columns
    running.send("m1", row(1, 5))
    two = change(running, METERS, (*METERS.columns, Column("volts", INT, stored="volts\0")))
    running.send("m1", {**row(2, 6), "volts": 230})
    three = change(running, two, (ts, two.columns[3]))
    running.send("m1", [{"ts": 3, "volts": 231}, {"ts": 1, "volts": 229}])
    four = change(running, three, (ts, three.columns[1], Column("amps", INT, stored="amps\0")))
    running.send("m1", {"ts": 4, "amps": 8})
    wanted = [(1, 229, None), (2, 230, None), (3, 231, None), (4, None, 8)]
    assert read(running, four, "ts", "volts", "amps") == wanted
    assert not running.letters()
    for stored in running.store.tables():
        stored.flush()
        stored.evict_half()
    assert read(running, four, "ts", "volts", "amps") == wanted
    running.restart()
    assert read(running, four, "ts", "volts", "amps") == wanted
    assert (amps.identity, note.identity) == ("amps", "Note (raw)")


def test_a_restart_reads_old_messages_by_the_old_definition(running: Running) -> None:
    running.send("m1", row(1, 5))
    running.wait()
    new = change(running, METERS, (METERS.columns[0], Column("volts", INT, stored="volts\0")))
    running.send("m1", {"ts": 2, "volts": 3})
    running.restart()  # nothing was flushed: all messages are read again
    assert read(running, new, "ts", "volts") == [(1, None), (2, 3)]
    assert not running.letters()


class LateCatalog(MemoryLog):
    """A log whose catalog does not come while it is ``late``."""

    late = False

    def take(self, positions: dict[tuple[str, int], int], limit: int) -> list[Record]:
        others = {where: at for where, at in positions.items() if not self.late or where[0] != CATALOG.name}
        found = super().take(others, limit)
        positions.update(others)
        return found


def test_rows_wait_for_the_definition_that_they_need(tmp_path: Path) -> None:
    log = LateCatalog()
    running = Running(tmp_path, log=log)
    running.define(METERS, PLAIN, Child("power", "meters", "m1", (1,)))
    running.start()
    log.late = True
    new = altered(PLAIN, (*PLAIN.columns, Column("volts", INT)), (), {0: 0, 1: 0})
    running.define(new)
    mark(running, new)
    running.send("log", {"ts": 1, "volts": 7}, PLAIN)
    running.send("m1", row(1))
    eventually(lambda: running.store.table(METERS).rows.count == 1)
    assert running.store.table(PLAIN).rows.count == 0
    log.late = False
    assert read(running, new, "ts", "volts") == [(1, 7)]
    assert not running.letters()
    running.stop()


def test_a_definition_that_does_not_exist_is_not_waited_for(running: Running) -> None:
    running.send("log", Altered(7), PLAIN)
    running.send("log", row(1), PLAIN)
    assert read(running, PLAIN, "ts") == [(1,)]
    (letter,) = running.letters()
    assert (letter.cause, letter.detail) == ("UNDECODABLE", "the table power.log has no version 7")


def test_a_renamed_column_keeps_its_values_and_a_stream_its_words(running: Running) -> None:
    ts, amps, note = PLAIN.columns
    running.send("log", row(1, 5), PLAIN)
    renamed = msgspec.structs.replace(amps, name="current", stored="amps")
    new = change(running, PLAIN, (ts, renamed, note))
    running.send("log", {"ts": 2, "current": 6}, PLAIN)
    assert read(running, new, "ts", "current") == [(1, 5), (2, 6)]
    assert read(running, PLAIN, "ts", "amps") == [(1, 5), (2, 6)]  # as a stream of before asks
    newer = change(running, new, (ts, note))
    assert read(running, newer, "ts") == [(1,), (2,)]
    with pytest.raises(PlanError) as caught:
        read(running, PLAIN, "ts", "amps")
    assert caught.value.code is ErrorCode.UNKNOWN_COLUMN


def test_tags_are_turned_with_the_table_and_change_in_order(running: Running) -> None:
    running.send("m1", row(1))
    site, floor = METERS.tags[0], Column("floor", INT, stored="floor\0")
    new = change(running, METERS, METERS.columns, (floor, site))
    assert read(running, new, "ts", "site", "floor") == [(1, 1, None)]
    running.send("m1", Retag({"site": 2, "floor": 3}))
    running.send("m2", {"tags": {"floor": 9}, "rows": [row(5)]})
    assert read(running, new, "ts", "site", "floor") == [(1, 2, 3), (5, None, 9)]
    assert read(running, METERS, "ts", "site") == [(1, 2), (5, None)]
    running.send("nobody", Retag({"site": 2}))
    running.wait()
    assert len(running.letters()) == 1
