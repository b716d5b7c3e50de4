"""A calculation sees what was written to the other tables that it reads before it was triggered."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import Duration, Output, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.topics import wal_topic

from .conftest import StoredTables

COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
TRIGGER = Table("d", "trigger", "normal", 7, "ms", COLUMNS)
OTHER = Table("d", "other", "normal", 8, "ms", COLUMNS)
OUT = Table("d", "out", "normal", 9, "ms", (Column("ts", TIMESTAMP), Column("n", BIGINT)))
MINUTE = Duration(1, "m")
EVENT = TriggerEvent("i", "CLOSE", "LIVE", Group(0, (), None), 60_000, 120_000, 1, 0)


def test_rows_on_their_way_into_the_store_are_waited_for(tmp_path: Path, duck: Any) -> None:
    desk = StoredTables(tmp_path, duck, Database("d", "ms"), TRIGGER, OTHER, OUT)
    store = desk.store
    query = "SELECT _twstart AS ts, sum(v) AS n FROM d.other WHERE ts >= _twstart AND ts < _twend"
    spec = StreamSpec(
        1, "d", "s", "", Interval(MINUTE, MINUTE), Source(TRIGGER), query=query, database="d",
        output=Output("d", "out", OUT.columns),
    )  # fmt: skip
    desk.learn(StreamEntry(spec, "Running", 0, 1))
    asked: list[str] = []

    def ends(topic: str) -> dict[int, int]:
        # the row is in the log, and comes into the store only after somebody asked
        asked.append(topic)
        threading.Timer(0.1, arrive).start()
        return {0: 1}

    def arrive() -> None:
        store.table(OTHER).take([None], [b'{"ts": 60500, "v": 5}'])
        store.table(OTHER).advance({0: 1})
        store.moved()

    desk.jobs.ends = ends
    product = desk.jobs.run(1, [TriggerBatch(1, 0, 0, 1, {}, [EVENT])])
    assert product.status is None
    assert asked == [wal_topic("d", "other")], "the trigger table has a place of its own to be read to"
    assert [json.loads(message.value or b"") for message in product.messages] == [[{"ts": 60_000, "n": 5}]]
