"""Tables that are altered under streams: by which definition rows are read, and what streams go on with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.model.revisions import altered
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import DataType
from millrace_core.trigger.types import Count, State
from millrace_core.wire import control
from millrace_core.wire.operations import Register, Retag
from millrace_core.wire.topics import wal_topic

INT = DataType("INT")


def change(
    cluster: Any, table: Table, columns: tuple[Column, ...], tags: tuple[Column, ...] | None = None
) -> Table:
    ends = {0: cluster.ends.get(wal_topic(table.db, table.name), 0)}
    new = altered(table, columns, table.tags if tags is None else tags, ends)
    cluster.control(control.ChangeTable(new))
    return new


def on(spec: StreamSpec, trigger: Any, **changes: Any) -> StreamSpec:
    return msgspec.structs.replace(spec, trigger=trigger, **changes)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_renamed_column_goes_on_to_trigger(kit: Any, batches: int) -> None:
    cluster = kit.Cluster()
    spec = on(kit.stream(columns={"v": "INT"}), State("v"))
    table = spec.source.table
    cluster.define(spec)
    cluster.write("c1", [{"ts": 1, "v": 1}, {"ts": 2, "v": 1}])
    if batches > 1:
        cluster.run()
    change(cluster, table, (table.columns[0], Column("w", INT, stored="v")))
    if batches > 1:
        cluster.run()
    cluster.write("c1", [{"ts": 3, "w": 1}, {"ts": 4, "w": 2}])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 1-3 x3"]}
    assert not cluster.totals()


def test_rows_that_come_late_are_read_by_the_definition_of_their_place(kit: Any) -> None:
    cluster = kit.Cluster()
    spec = on(kit.stream(columns={"v": "INT", "w": "INT"}), Count(2, 2, ("v",)))
    table = spec.source.table
    cluster.define(spec)
    cluster.run()
    cluster.write("c1", [{"ts": 1, "v": 1, "w": 1}])
    behind, cluster.waiting = cluster.waiting, []
    change(cluster, table, table.columns[:2])  # w is dropped
    cluster.run()
    cluster.waiting = behind
    cluster.write("c1", [{"ts": 2, "v": 2}])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 1-2 x2"]}
    cluster.write("c1", [{"ts": 3, "v": 2, "w": 1}])
    cluster.run()
    assert cluster.totals() == {"undecodable": 1}


def test_streams_of_before_and_after_a_change_read_side_by_side(kit: Any) -> None:
    cluster = kit.Cluster()
    first = on(kit.stream(1, columns={"v": "INT"}), Count(2, 2, ("v",)))
    table = first.source.table
    cluster.define(first)
    new = change(
        cluster, table, (table.columns[0], Column("w", INT, stored="v"), Column("v", INT, stored="x"))
    )
    source = msgspec.structs.replace(first.source, table=new)
    cluster.define(msgspec.structs.replace(first, uid=2, source=source))
    cluster.write("c1", [{"ts": 1, "w": 1}, {"ts": 2, "v": 1}, {"ts": 3, "w": 1}, {"ts": 4, "v": 1}])
    cluster.run()
    assert cluster.live(1) == {"c1": ["CLOSE 1-3 x2"]}
    assert cluster.live(2) == {"c1": ["CLOSE 2-4 x2"]}


def test_grouping_follows_tags_through_changes_of_the_table(kit: Any) -> None:
    cluster = kit.Cluster()
    spec = kit.stream(partition=("site",))
    table = spec.source.table
    site = table.tags[0]
    cluster.define(spec)
    cluster.operate("c1", Register({"site": 1}))
    cluster.write("c1", [1])
    cluster.run()
    renamed = msgspec.structs.replace(site, name="place", stored="site")
    new = change(cluster, table, table.columns, (Column("floor", INT, stored="f"), renamed))
    cluster.operate("c2", Register({"place": 1, "floor": 2}))
    cluster.write("c2", [3])
    cluster.write("c1", [12])
    cluster.run()
    assert [text for texts in cluster.live().values() for text in texts] == ["CLOSE 0-10 x2"]
    change(cluster, new, new.columns, new.tags[:1])  # the tag of the grouping is dropped
    cluster.write("c1", [25])
    cluster.run()
    assert len(cluster.triggers) == 1
    assert cluster.totals() == {"unknown_table": 1}


def test_a_tag_takes_effect_between_the_rows_that_it_lies_between(kit: Any) -> None:
    from .test_pre_filter import filtered

    cluster = kit.Cluster()
    cluster.define(filtered(on(kit.stream(columns={"v": "INT"}), Count(1, 1)), "site = 1"))
    cluster.operate("c1", Register({"site": 1}))
    cluster.write("c1", [{"ts": 1, "v": 1}])
    cluster.operate("c1", Retag({"site": 2}))
    cluster.write("c1", [{"ts": 2, "v": 1}])
    cluster.run()
    cluster.write("c1", [{"ts": 3, "v": 1}])
    cluster.operate("c1", Retag({"site": 1}))
    cluster.write("c1", [{"ts": 4, "v": 1}])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 1-1 x1", "CLOSE 4-4 x1"]}
