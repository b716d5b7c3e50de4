"""Writing what a round gave: one table that is gone holds nobody up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import TIMESTAMP
from millrace_core.wire.topics import NOTIFICATIONS, STATUS, wal_topic
from millrace_wal import MemoryLog, Message, replay

KEPT = Table("d", "kept", "normal", 1, "ms", (Column("ts", TIMESTAMP),))
GONE = wal_topic("d", "gone")


def test_rows_of_a_dropped_table_are_left_out() -> None:
    log, catalog = MemoryLog(), CatalogView()
    for offset, entry in enumerate((Database("d"), KEPT)):
        catalog.apply(offset, key_of(entry), encode(entry))
    there = wal_topic("d", "kept")
    log.ensure_topics([(there, 1), NOTIFICATIONS, STATUS])
    store = SimpleNamespace(missing=lambda _: None, sent=lambda rows, places: None)
    jobs = cast(Any, SimpleNamespace(catalog=catalog, store=store, stop=lambda: None))
    loop = TriggerLoop(log, jobs, Overtaking())
    row = b'{"ts":1}'
    product = Product(1, [Message(GONE, b"gone", row), Message(there, b"kept", row)])
    assert loop._calculating._write([product])
    assert [record.value for record in replay(log, there)] == [row]
    loop.stopping.set()
    loop.end()
