"""PRE_FILTER: rows that do not pass are no rows to the trigger."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.conditions import condition_expression
from millrace_core.language.query import parse_expression
from millrace_core.model.schema import Child, Table
from millrace_core.model.stream import Condition, Emission, StreamSpec
from millrace_core.trigger.stream import compiled, essence
from millrace_core.wire import control
from millrace_core.wire.operations import Register
from millrace_core.wire.topics import slot_of, wal_topic


def filtered(spec: StreamSpec, sql: str) -> StreamSpec:
    assert spec.source is not None
    tree = parse_expression(sql)
    names = tuple(dict.fromkeys(column.name for column in tree.find_all(type(parse_expression("x")))))
    condition = Condition(sql, names, condition_expression(tree, spec.source.table, "UTC", "PRE_FILTER"))
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, pre_filter=condition))


def know(cluster: Any, table: Table, children: dict[str, tuple[int, int]]) -> None:
    for name, tags in children.items():
        slot = slot_of(wal_topic(table.db, table.name), name.encode(), cluster.slots)
        cluster.control(control.KnowChildren(slot, (Child(table.db, table.name, name, tags),)))


def test_filtered_rows_move_no_clock_and_count_for_nothing(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(1), "v > 0"))
    cluster.define(kit.stream(2))
    cluster.write("c1", [[1, 5], [2, -1], [3, None], [8, 2]])
    cluster.write("c1", [[50, -1]])
    cluster.run()
    assert cluster.live(1) == {}  # the row at 50 would have closed the window
    assert cluster.live(2)["c1"][0] == "CLOSE 0-10 x4"
    cluster.write("c1", [[12, 1]])
    cluster.run()
    assert cluster.live(1) == {"c1": ["CLOSE 0-10 x2"]}
    assert cluster.totals() == {"filtered": 3}


def test_the_last_version_of_a_row_in_a_message_is_the_one_that_is_asked(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(), "v > 0"))
    cluster.write("c1", [[1, 5], [1, -1], [2, -1], [2, 5], [11, 1]])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}


def test_a_tag_decides_by_its_value_when_the_row_was_written(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(), "site = 2 AND v > 0"))
    know(cluster, kit.METERS, {"r1": (1, 0), "r2": (2, 0)})
    for child in ("r1", "r2", "r3"):
        cluster.write(child, [[1, 1], [2, -1], [11, 1]])
    cluster.operate("r3", Register({"site": 2, "room": 0}))
    cluster.write("r3", [[21, 1], [31, 1]])
    cluster.run()
    assert cluster.live() == {"r2": ["CLOSE 0-10 x1"], "r3": ["CLOSE 20-30 x1"]}
    assert cluster.totals() == {"filtered": 4, "unknown_table": 3}


@pytest.mark.parametrize("partition", [("site",), ()])
def test_rows_are_filtered_before_they_are_sent_to_their_group(kit: Any, partition: tuple[str, ...]) -> None:
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(partition=partition), "tbname <> 'r2' AND room = 0"))
    know(cluster, kit.METERS, {"r1": (1, 0), "r2": (1, 0), "r3": (1, 7)})
    cluster.run()
    for child in ("r1", "r2", "r3"):
        cluster.write(child, [[1, 1], [2, 1]])
    cluster.write("r2", [[99, 1]])
    cluster.write("r1", [[12, 1]])
    cluster.run()
    (events,) = cluster.live().values()
    assert [event.split()[:2] for event in events] == [["CLOSE", "0-10"]]
    assert cluster.totals() == {"filtered": 5}


def test_a_normal_table_and_an_unread_batch(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(table=kit.PLAIN, partition=()), "tbname = 'plain' AND v > 0"))
    cluster.write(None, [[1, 1], [2, 0]], kit.PLAIN)
    cluster.write(None, [[3, 0]], kit.PLAIN)
    cluster.run()
    cluster.write("plain", [[11, 1]], kit.PLAIN)
    cluster.run()
    assert cluster.live() == {"plain": ["CLOSE 0-10 x1"]}


def test_a_stream_whose_filter_lost_its_column_sees_no_row(kit: Any) -> None:
    cluster = kit.Cluster()
    spec = filtered(kit.stream(columns={"v": "INT", "w": "INT"}), "w IS NULL OR v > 0")
    assert spec.source is not None
    cluster.define(spec)
    cluster.write("c1", [{"ts": 1, "v": 1}, {"ts": 11, "v": 1}])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    table = spec.source.table
    cluster.control(control.ChangeTable(msgspec.structs.replace(table, columns=table.columns[:2])))
    cluster.write("c1", [{"ts": 21, "v": 1}, {"ts": 31, "v": 1}])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    assert cluster.totals() == {"filtered": 2}


def test_only_conditions_that_read_tags_need_tags(kit: Any) -> None:
    reads = {
        sql: compiled(essence(filtered(kit.stream(), sql))).reads_tags
        for sql in ("v > 0", "tbname = 'a'", "site = 1 OR v > 0")
    }
    assert list(reads.values()) == [False, False, True]


def test_a_group_that_has_evaluated_nothing_loses_nothing(kit: Any) -> None:
    """Its first row waits for T, which lies behind a time at which a row comes that does not pass."""
    cluster = kit.Cluster()
    cluster.define(filtered(kit.stream(watermark=10), "v > 0"))
    cluster.write("c1", [[100, 1]])
    cluster.run()
    cluster.write("c1", [[50, -1]])
    cluster.run()
    assert cluster.asked == []
    cluster.write("c1", [[200, 1]])  # now it has evaluated the row at 100
    cluster.write("c1", [[100, -1]])
    cluster.run()
    assert [(part.first, part.last) for one in cluster.asked for part in one.parts] == [(100, 100)]


def test_nothing_is_shown_until_what_was_written_during_a_stop_is_told(kit: Any) -> None:
    """A row that waited for T, and was shown, is written again and does not pass."""
    cluster = kit.Cluster(slots=1)
    spec = filtered(kit.stream(watermark=10), "v > 0")
    options = msgspec.structs.replace(spec.options, fill_history=0)
    emission = Emission("at_once", None, obsolete="retracted")
    cluster.define(msgspec.structs.replace(spec, options=options, emission=emission))
    cluster.write("c1", [[1, 1], [15, 1], [16, 1]])
    cluster.run()
    shown = len(cluster.triggers)
    assert shown > 0
    cluster.control(control.StopStream(1))
    cluster.write("c1", [[17, 1]])
    end = cluster.ends[wal_topic("d", "meters")]
    cluster.control(control.StartStream(1, {0: end}, 1, untreated=True))
    cluster.run()
    assert [one.why for one in cluster.asked] == ["UNTREATED"]
    cluster.write("c1", [[15, -1]])
    cluster.run()
    assert len(cluster.triggers) == shown


@pytest.mark.parametrize(("ts", "asked"), [(80, [(80, 80)]), (79, [])])
@pytest.mark.parametrize("cells", [{"v": -1}, {"w": 1}])
def test_a_row_that_is_just_not_expired_is_lost(kit: Any, ts: int, asked: Any, cells: dict[str, int]) -> None:
    """One that does not pass, and one of which only the stored rows know whether it does."""
    cluster = kit.Cluster(slots=1)
    cluster.define(filtered(kit.stream(expired=20, columns={"v": "INT", "w": "INT"}), "v > 0"))
    cluster.write("c1", [[ts, 1], [100, 1]])
    cluster.run()
    cluster.write("c1", [{"ts": ts, **cells}])
    cluster.run()
    assert [(part.first, part.last) for one in cluster.asked for part in one.parts] == asked
