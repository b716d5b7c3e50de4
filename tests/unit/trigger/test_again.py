"""A stream that begins when rows behind its beginning were evaluated: they come again for it, and for nobody
else. Each story is told twice: the record that begins the stream comes behind these rows, or before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.stream import Condition
from millrace_core.wire import control, recalc
from millrace_core.wire.operations import Delete, Drop, Operation, Register, encode_operation
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import RECALC, slot_of, wal_topic
from millrace_wal import Message, replay

from .deployment import METERS, SLOTS, Deployment
from .test_virtual import PAIR, SUPER, link

SESSION = {"Session": {"gap": 5}}
PHYS, VIRTUAL = wal_topic("a", "phys"), wal_topic("d", "pair")
Records = Callable[[Deployment], list[control.AnyControl]]
Writes = Callable[[Deployment], None]


def deletes(spec: Any) -> Any:
    """The stream cuts windows again when rows are deleted."""
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, delete_recalc=True))


def operate(one: Deployment, child: str, operation: Operation, topic: str = METERS) -> None:
    one.now += 1
    one.log.append([Message(topic, child.encode(), encode_operation(operation))])


class Told:
    """What came of it: events with their row counts, and how often which windows were asked for."""

    def __init__(self, one: Deployment) -> None:
        one.regrouped()
        self.events = one.events()
        asked = [recalc.decode_request(record.value or b"") for record in replay(one.log, RECALC.name)]
        self.asked = Counter(
            (request.stream, request.why, part.group.id, part.first, part.last)
            for request in asked
            for part in request.parts
        )

    def of(self, uid: int) -> list[tuple[int, int, int]]:
        """The windows of a stream: start, end, rows."""
        return sorted(
            (start, end, rows) for stream, _, _, start, end, _, _, rows in self.events if stream == uid
        )


@pytest.fixture
def tell(tmp_path: Path, kit: Any) -> Callable[..., Told]:
    """``before``: streams that run; ``records``: asks for the ends, and says what begins another one;
    ``between``, ``after``: rows behind these ends, before and behind the record."""

    def tell(
        before: list[Any], records: Records, between: Writes, after: Writes, first: Writes = lambda _: None
    ) -> Told:
        told = []
        for late in (False, True):
            one = Deployment(tmp_path / str(late), kit)
            one.log.ensure_topics([(PHYS, 1), (VIRTUAL, 1)])
            for each in before:
                for record in each(one) if callable(each) else [_defines(one, each)]:
                    one.control(record)
            one.finish()
            first(one)
            one.finish()
            asked = records(one)
            if late:
                between(one)
                one.finish()
            for record in asked:
                one.control(record)
            if not late:
                one.finish()
                between(one)
            one.finish()
            after(one)
            one.finish()
            told.append(Told(one))
        assert told[1].events == told[0].events
        assert told[1].asked == told[0].asked
        return told[1]

    return tell


def _defines(one: Deployment, spec: Any) -> control.DefineStream:
    return control.DefineStream(spec, one.log.end_offsets(wal_topic("d", spec.source.table.name)))


def rows(*written: tuple[str, int]) -> Writes:
    def write(one: Deployment) -> None:
        for child, ts in written:
            one.write(child, ts)

    return write


@pytest.mark.parametrize("child", [None, "a"])
def test_a_stream_by_table(tell: Any, kit: Any, child: str | None) -> None:
    partition = ("tbname",)
    told = tell(
        [kit.stream(1)],
        lambda one: [one.definition(2, partition=partition, child=child)],
        rows(("a", 4), ("b", 5), ("a", 12), ("a", 13)),
        rows(("a", 23), ("b", 14)),
        first=rows(("a", 1), ("b", 2)),
    )
    assert told.of(1) == [(0, 10, 2), (0, 10, 2), (10, 20, 2)]
    assert told.of(2) == [*([(0, 10, 1)] * (1 if child else 2)), (10, 20, 2)]


@pytest.mark.parametrize("partition", [(), ("site",)])
def test_a_stream_whose_groups_have_several_tables(tell: Any, kit: Any, partition: tuple[str, ...]) -> None:
    def children(one: Deployment) -> None:
        for name in ("a", "b"):
            operate(one, name, Register({"site": 1, "room": 2}))

    told = tell(
        [kit.stream(1, partition=partition, trigger=SESSION)],
        lambda one: [one.definition(2, partition=partition, trigger=SESSION)],
        rows(("a", 4), ("a", 6)),
        rows(("a", 20), ("a", 40)),
        first=lambda one: (children(one), one.write("a", 2)),
    )
    assert told.of(1) == [(2, 6, 3), (20, 20, 1)]
    # what tables there are a stream that reads tags is told beside its definition: here by nobody
    assert told.of(2) == [(4, 6, 2), (20, 20, 1)]


def test_deletes_count_once(tell: Any, kit: Any) -> None:
    def between(one: Deployment) -> None:
        one.write("a", 4)
        one.write("a", 12)
        operate(one, "a", Delete(0, 5))
        one.write("a", 14)

    told = tell(
        [deletes(kit.stream(1))],
        lambda one: [_defines(one, deletes(kit.stream(2)))],
        between,
        rows(("a", 23)),
        first=rows(("a", 1)),
    )
    assert {uid for uid, *_ in told.asked} == {1, 2} and set(told.asked.values()) == {1}


@pytest.mark.parametrize("rewritten", [False, True])
def test_what_changes_while_a_stream_is_stopped_is_noted_once(tell: Any, kit: Any, rewritten: bool) -> None:
    """A DELETE, or a row that PRE_FILTER leaves out once it is written again."""
    spec = kit.stream(1)
    positive = Condition("v > 0", ("v",), Call("gt", (Field("v"), Constant(0))))
    paused = msgspec.structs.replace(
        spec,
        emission=msgspec.structs.replace(spec.emission, untreated="live"),
        options=msgspec.structs.replace(spec.options, delete_recalc=True, pre_filter=positive),
    )

    def pauses(one: Deployment) -> None:
        for ts in (1, 2, 21):
            one.write("a", ts)
        one.finish()
        one.control(control.StopStream(1))

    def between(one: Deployment) -> None:
        one.write("a", 4)
        if rewritten:
            one.log.append([Message(METERS, b"a", encode_rows([{"ts": 1, "v": 0}]))])
        else:
            operate(one, "a", Delete(0, 5))

    def resumes(one: Deployment) -> None:
        one.control(control.StartStream(1, one.log.end_offsets(METERS), 1, untreated=True))
        one.finish()
        one.write("a", 33)

    told = tell([paused], lambda one: [one.definition(2)], between, resumes, first=pauses)
    assert set(told.asked.values()) == {1}


def test_a_child_that_was_made_again_meanwhile(tell: Any, kit: Any) -> None:
    def between(one: Deployment) -> None:
        one.write("a", 3)
        operate(one, "a", Drop())
        operate(one, "a", Register({"site": 1, "room": 1}))
        one.write("a", 4)

    told = tell(
        [kit.stream(1)],
        lambda one: [one.definition(2)],
        between,
        rows(("a", 5), ("a", 12)),
        first=rows(("a", 1)),
    )
    assert told.of(1) == told.of(2) == [(0, 10, 2)], "the rows of the new one"


def test_a_table_that_was_dropped_and_made_again(tell: Any, kit: Any) -> None:
    again = msgspec.structs.replace(kit.METERS, uid=70)

    def records(one: Deployment) -> list[control.AnyControl]:
        gone = control.DropTable(kit.METERS.uid, METERS)
        return [control.DropStream(1), gone, _defines(one, kit.stream(2, table=again))]

    told = tell([kit.stream(1)], records, rows(("a", 4), ("a", 5)), rows(("a", 12)), first=rows(("b", 1)))
    assert told.of(2) == [(0, 10, 2)]


def test_a_stream_that_goes_on(tell: Any, kit: Any) -> None:
    told = tell(
        [kit.stream(1), kit.stream(2), lambda _: [control.StopStream(2)]],
        lambda one: [control.StartStream(2, one.log.end_offsets(METERS), 1)],
        rows(("a", 4), ("a", 5)),
        rows(("a", 12)),
        first=rows(("a", 1)),
    )
    assert (told.of(1), told.of(2)) == ([(0, 10, 3)], [(0, 10, 2)])


@pytest.mark.parametrize("partition", [("tbname",), ()])
def test_a_start_of_a_stream_that_failed_in_another_slot(
    tell: Any, kit: Any, partition: tuple[str, ...]
) -> None:
    """It runs in this one, and misses nothing."""
    told = tell(
        [kit.stream(1, partition=partition, trigger=SESSION)],
        lambda one: [control.StartStream(1, one.log.end_offsets(METERS), 1)],
        rows(("a", 4), ("a", 6)),
        rows(("a", 20)),
        first=rows(("a", 2)),
    )
    assert told.of(1) == [(2, 6, 3)]


# -- virtual tables ------------------------------------------------------------------------------------------


def onto(kit: Any, uid: int, *sources: str) -> Callable[[Deployment], list[control.AnyControl]]:
    """A stream on a virtual table that takes rows of these children."""

    def records(one: Deployment) -> list[control.AnyControl]:
        origins = {PHYS: one.log.end_offsets(PHYS)}
        spec = kit.stream(uid, table=PAIR, partition=(), trigger=SESSION)
        found: list[control.AnyControl] = []
        for slot in range(SLOTS):
            mine = tuple(
                link(SUPER, name, "pair", ("v", "x"))
                for name in sources
                if slot_of(PHYS, name.encode(), SLOTS) == slot
            )
            if mine:
                found.append(control.KnowOrigins(slot, uid, PAIR, (SUPER,), origins, mine))
        return [*found, control.DefineStream(spec, one.log.end_offsets(VIRTUAL), origins=origins)]

    return records


def virtual(*times: int, child: str = "p1") -> Writes:
    def write(one: Deployment) -> None:
        for ts in times:
            one.now += 1
            one.log.append([Message(PHYS, child.encode(), encode_rows([{"ts": ts, "v": 1}]))])

    return write


def test_a_stream_on_a_virtual_table(tell: Any, kit: Any) -> None:
    told = tell([], onto(kit, 2, "p1"), virtual(4, 6), virtual(20, 40), first=virtual(1))
    assert told.of(2) == [(4, 6, 2), (20, 20, 1)]


def test_a_second_stream_on_a_virtual_table(tell: Any, kit: Any) -> None:
    told = tell([onto(kit, 1, "p1")], onto(kit, 2, "p1"), virtual(4, 6), virtual(20, 40), first=virtual(2))
    assert told.of(1) == [(2, 6, 3), (20, 20, 1)]
    assert told.of(2) == [(4, 6, 2), (20, 20, 1)]


def test_a_delete_in_the_source_of_a_virtual_table(tell: Any, kit: Any) -> None:
    def with_deletes(uid: int) -> Callable[[Deployment], list[control.AnyControl]]:
        def records(one: Deployment) -> list[control.AnyControl]:
            *links, definition = onto(kit, uid, "p1")(one)
            assert isinstance(definition, control.DefineStream)
            return [*links, msgspec.structs.replace(definition, spec=deletes(definition.spec))]

        return records

    def between(one: Deployment) -> None:
        virtual(4, 6, 30)(one)
        operate(one, "p1", Delete(0, 5), PHYS)

    told = tell([with_deletes(1)], with_deletes(2), between, virtual(50), first=virtual(2))
    assert {uid for uid, *_ in told.asked} == {1, 2} and set(told.asked.values()) == {1}


def test_a_stream_on_a_virtual_table_that_goes_on(tell: Any, kit: Any) -> None:
    def starts(one: Deployment) -> list[control.AnyControl]:
        ends = one.log.end_offsets(VIRTUAL)
        return [control.StartStream(2, ends, 1, {PHYS: one.log.end_offsets(PHYS)})]

    told = tell(
        [onto(kit, 1, "p1"), onto(kit, 2, "p1"), lambda _: [control.StopStream(2)]],
        starts,
        virtual(4, 6),
        virtual(20),
        first=virtual(2),
    )
    assert (told.of(1), told.of(2)) == ([(2, 6, 3)], [(4, 6, 2)])


def test_records_that_are_evaluated_one_by_one(tmp_path: Path, kit: Any) -> None:
    """What is sent on for a stream before it is there comes again with its definition."""
    one = Deployment(tmp_path, kit)
    one.log.ensure_topics([(PHYS, 1), (VIRTUAL, 1)])
    for record in onto(kit, 1, "p1", "p2")(one):
        one.control(record)
    one.finish()
    records = onto(kit, 2, "p1", "p2")(one)
    virtual(4)(one)
    one.finish()
    for place, record in enumerate(records):
        one.control(record)
        one.finish()
        virtual(5 + place)(one)
        one.finish()
    virtual(20)(one)
    one.finish()
    told = Told(one)
    assert told.of(1) == told.of(2) == [(4, 4 + len(records), 1 + len(records))]
