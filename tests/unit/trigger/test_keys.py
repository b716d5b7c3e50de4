"""Groups by columns and expressions: each key's rows are judged as if they were a table of their own.

That the rows of one message come apart, that groups lie in other slots than their table, how rows are cut
into batches, and that each batch goes through the states' bytes, is not to be seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.stream import Condition, Emission, GroupKey
from millrace_core.model.types import DataType
from millrace_core.wire.operations import Delete, Drop, Register

from ...conftest import examples

BY_V = GroupKey("v", DataType("INT"), Field("v"))
ODD = GroupKey("v % 2", DataType("BIGINT"), Call("rest", (Field("v"), Constant(2))))
Row = tuple[int, int]
rows = st.lists(
    st.tuples(st.integers(-20, 120), st.integers(0, 2)), min_size=1, max_size=4, unique_by=lambda row: row[0]
)
messages = st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3"]), rows), max_size=10)
cuts = st.lists(st.booleans(), min_size=10, max_size=10)
watermarks = st.sampled_from([0, 7, 20])


def keyed(kit: Any, *keys: GroupKey, rewritten: str = "counted", deletes: bool = False, **stream: Any) -> Any:
    spec = kit.stream(kinds=("WINDOW_OPEN", "WINDOW_CLOSE"), **stream)
    options = msgspec.structs.replace(spec.options, delete_recalc=deletes)
    return msgspec.structs.replace(spec, keys=keys, options=options, emission=Emission(rewritten=rewritten))


def replay(kit: Any, spec: Any, some: list[tuple[str, list[Row]]], cut: list[bool]) -> Any:
    cluster = kit.Cluster()
    cluster.define(spec)
    for number, (child, mine) in enumerate(some):
        cluster.write(child, [list(row) for row in mine])
        if cut[number]:
            cluster.run()
    cluster.run()
    return cluster


def by_key(cluster: Any) -> dict[tuple[Any, ...], list[str]]:
    """Group's key -> what was told of it live."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for batch in cluster.triggers:
        for event in batch.events:
            if event.cause == "LIVE":
                text = f"{event.kind} {event.start}-{event.end} x{event.rownum}"
                found.setdefault(event.group.key, []).append(text)
    return found


def asked(cluster: Any) -> set[tuple[Any, ...]]:
    return {(*part.group.key, part.first, part.last) for request in cluster.asked for part in request.parts}


@settings(max_examples=examples(60))
@given(messages, cuts, watermarks)
def test_of_one_table_each_key_is_judged_as_a_table_of_its_own(
    kit: Any, some: list[tuple[str, list[Row]]], cut: list[bool], watermark: int
) -> None:
    together = replay(kit, keyed(kit, BY_V, watermark=watermark), some, cut)
    apart = [
        (f"{child}/{key}", [row for row in mine if row[1] == key])
        for child, mine in some for key in sorted({v for _, v in mine})
    ]  # fmt: skip
    alone = replay(kit, keyed(kit, watermark=watermark), apart, [True] * len(apart))
    assert {f"{child}/{v}": told for (child, v), told in by_key(together).items()} == {
        name: told for (name,), told in by_key(alone).items()
    }
    assert {(f"{c}/{v}", *span) for c, v, *span in asked(together)} == asked(alone)


@settings(max_examples=examples(40))
@given(messages, watermarks, st.sampled_from(["counted", "corrected"]))
def test_of_all_tables_each_key_is_one_group_and_batches_are_not_seen(
    kit: Any, some: list[tuple[str, list[Row]]], watermark: int, rewritten: str
) -> None:
    spec = keyed(kit, BY_V, watermark=watermark, partition=(), rewritten=rewritten)
    one_by_one = replay(kit, spec, some, [True] * 10)
    apart = [
        (f"{child}/{key}", [row for row in mine if row[1] == key])
        for child, mine in some for key in sorted({v for _, v in mine})
    ]  # fmt: skip
    for key in (0, 1, 2):
        mine = [(child, part) for child, part in apart if part[0][1] == key]
        plain = replay(kit, keyed(kit, watermark=watermark, partition=()), mine, [True] * len(mine))
        assert by_key(plain).get((), []) == by_key(one_by_one).get((key,), [])
    assert one_by_one.regrouped >= len({(child, key) for child, mine in some for _, key in mine})


def test_expressions_and_tags_stand_side_by_side(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(keyed(kit, ODD, partition=("site",)))
    for child, site in (("c1", 5), ("c2", 6), ("c3", 5)):
        cluster.operate(child, Register({"site": site, "room": 1}))
    for child in ("c1", "c2", "c3"):
        cluster.write(child, [[1, 1], [2, 4], [3, 3]])
        cluster.write(child, [[11, 1], [12, 2]])
    cluster.run()
    closed = {key: told[-2:] for key, told in by_key(cluster).items()}
    assert closed.keys() == {(5, 1), (5, 0), (6, 1), (6, 0)}
    assert closed[6, 1] == ["CLOSE 0-10 x2", "OPEN 10-20 x1"]


def test_null_is_a_key_and_not_the_text(kit: Any) -> None:
    cluster = kit.Cluster()
    text = GroupKey("v", DataType("VARCHAR", 8), Field("v"))
    cluster.define(keyed(kit, text, columns={"v": "VARCHAR"}))
    cluster.write("c1", [{"ts": 1, "v": None}, {"ts": 2, "v": "None"}, {"ts": 3, "v": ""}])
    cluster.run()
    assert by_key(cluster).keys() == {("c1", None), ("c1", "None"), ("c1", "")}


def test_what_the_filter_leaves_out_makes_no_group(kit: Any) -> None:
    spec = keyed(kit, BY_V)
    condition = Condition("v > 1", ("v",), Call("gt", (Field("v"), Constant(1))))
    spec = msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, pre_filter=condition))
    cluster = kit.Cluster()
    cluster.define(spec)
    cluster.write("c1", [[1, 1], [2, 2]])
    cluster.run()
    assert by_key(cluster).keys() == {("c1", 2)}
    cluster.tick(10)
    cluster.run()
    assert cluster.totals()["filtered"] == 1


@pytest.mark.parametrize("partition", [("tbname",), ()])
def test_a_row_written_again_under_another_key_leaves_its_group(kit: Any, partition: tuple[str, ...]) -> None:
    cluster = kit.Cluster()
    cluster.define(keyed(kit, BY_V, partition=partition, rewritten="corrected"))
    for row in ([1, 1], [2, 1], [15, 1], [16, 2], [2, 2]):
        cluster.write("c1", [row])
        cluster.run()
    mine = ("c1",) if partition else ()
    assert asked(cluster) == {(*mine, 1, 2, 2)}


@pytest.mark.parametrize("partition", [("tbname",), ()])
def test_rows_written_again_that_count_once_more_leave_no_group(kit: Any, partition: tuple[str, ...]) -> None:
    cluster = kit.Cluster()
    cluster.define(keyed(kit, BY_V, partition=partition))
    for row in ([1, 1], [2, 1], [15, 1], [16, 2], [2, 2]):
        cluster.write("c1", [row])
        cluster.run()
    again = {event.group.key[-1] for batch in cluster.triggers for event in batch.events
             if event.cause == "RECALC"}  # fmt: skip
    assert not asked(cluster) and again == {2}


@pytest.mark.parametrize("partition", [("tbname",), ()])
def test_a_delete_is_one_of_every_group_of_the_table(kit: Any, partition: tuple[str, ...]) -> None:
    cluster = kit.Cluster()
    cluster.define(keyed(kit, BY_V, partition=partition, deletes=True))
    cluster.write("c1", [[1, 1], [2, 2], [25, 1], [26, 2]])
    cluster.write("c2", [[3, 3], [27, 3]])
    cluster.run()
    cluster.operate("c1", Delete(0, 5))
    cluster.run()
    mine = ("c1",) if partition else ()
    assert {span[:-2] for span in asked(cluster)} == {(*mine, 1), (*mine, 2)}


def test_groups_end_with_their_table(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(keyed(kit, BY_V))
    cluster.write("c1", [[1, 1], [2, 2]])
    cluster.write("c2", [[1, 1]])
    cluster.run()
    cluster.operate("c1", Drop())
    cluster.run()
    cluster.operate("c1", Register({"site": 1, "room": 1}))
    cluster.write("c1", [[3, 1], [12, 1]])
    cluster.run()
    ids = {event.group.id for batch in cluster.triggers for event in batch.events
           if event.group.key == ("c1", 1)}  # fmt: skip
    assert len(ids) == 2
    assert by_key(cluster)["c1", 1][-2:] == ["CLOSE 0-10 x1", "OPEN 10-20 x1"]
