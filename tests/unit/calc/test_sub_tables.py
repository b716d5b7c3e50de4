"""A group whose sub-table cannot be written: the others go on, the table of that name stays, the stream says
why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Notify, Output, OutputTag, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent

from .conftest import StoredTables

COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
TAG = OutputTag(Column("place", DataType("TINYINT")), "site")
SOURCE = Table("d", "src", "super", 7, "ms", COLUMNS, (Column("site", DataType("INT")),))
OUT = Table("d", "res", "super", 9, "ms", (Column("ts", TIMESTAMP), Column("n", BIGINT)), (TAG.column,))
OTHERS = Table("d", "others", "super", 10, "ms", COLUMNS, (Column("k", DataType("INT")),))
PLAIN = Table("d", "r_d1", "normal", 8, "ms", COLUMNS)
MINUTE = Duration(1, "m")
SITES = {"d1": 1, "d2": 2, "res": 3, "oc": 4, "far": 1000, "own": 5}
NAMES = {"res": "res"}


def spec(subtable: str) -> StreamSpec:
    return StreamSpec(
        1, "d", "s", "", Interval(MINUTE, MINUTE), Source(SOURCE), ("tbname", "site"),
        query="SELECT _twstart AS ts, count(*) AS n FROM %%trows", database="d",
        notify=Notify(("ws://a",), ("WINDOW_CLOSE",)),
        output=Output("d", "res", OUT.columns, (TAG,), subtable),
    )  # fmt: skip


def desk_of(folder: Path, duck: Any, subtable: str) -> StoredTables:
    children = [Child("d", "src", name, (site,)) for name, site in SITES.items()]
    desk = StoredTables(folder, duck, Database("d"), SOURCE, OUT, OTHERS, PLAIN, *children)
    desk.learn(Child("d", "others", "r_oc", (1,)), Child("d", "res", "r_own", (5,)))
    desk.learn(StreamEntry(spec(subtable), "Running", 0, 1))
    for child in children:
        desk.store.table(SOURCE).register(child)
    return desk


def run(desk: StoredTables, *names: str) -> Any:
    events = [
        TriggerEvent(
            name, "CLOSE", "LIVE", Group(SITES[name], (name, SITES[name]), name), 60_000, 120_000, 1, 0
        )
        for name in names
    ]
    return desk.jobs.run(1, [TriggerBatch(1, 0, 0, 1, {}, events)])


def written(product: Any) -> dict[str, Any]:
    return {message.key.decode(): json.loads(message.value) for message in product.messages}


@pytest.mark.parametrize(("name", "told"), [
    ("d1", "the sub-table d.r_d1 of res cannot be created: a normal table of this name already exists"),
    ("oc", "d.r_oc of res cannot be created: a child table of others of this name already exists"),
    ("far", "nothing can be written to d.r_far: the tag place TINYINT cannot hold 1000"),
])  # fmt: skip
def test_one_group_is_refused_and_the_others_go_on(tmp_path: Path, duck: Any, name: str, told: str) -> None:
    desk = desk_of(tmp_path, duck, "concat('r_', tbname)")
    product = run(desk, "d2", name, "own")
    assert set(written(product)) == {"r_d2", "r_own"}
    assert product.status is not None and told in product.status.message
    assert product.counts["failures"] == 1 and product.counts["calculations"] == 2
    assert {notice.event["tableName"] for notice in product.notices} == {"r_d2", "r_own"}
    again = run(desk, "d2")
    assert again.status is not None and told in again.status.message, "the group's results are still missing"
    assert written(again) and not again.counts["failures"]


def test_a_name_that_becomes_free_is_used(tmp_path: Path, duck: Any) -> None:
    desk = desk_of(tmp_path, duck, "concat('r_', tbname)")
    assert run(desk, "d1").status.message
    desk.catalog.apply(desk.records, b"table\x1fd\x1fr_d1", None)
    product = run(desk, "d1")
    assert product.status is not None and product.status.message == ""
    assert written(product) == {"r_d1": {"tags": {"place": 1}, "rows": [{"ts": 60_000, "n": 0}]}}
    assert run(desk, "d2").status is None


def test_the_output_s_own_name_is_no_sub_table_s(tmp_path: Path, duck: Any) -> None:
    desk = desk_of(tmp_path, duck, "tbname")
    product = run(desk, "res")
    assert not product.messages and product.counts["failures"] == 1
    assert "d.res of res cannot be created: a super table" in product.status.message
