"""What one stream cannot calculate or write holds up no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from calc_svc.jobs import groups
from calc_svc.jobs.groups import GroupNames
from calc_svc.jobs.waits import Waits
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.patience import append_apart
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.calc.waiting import Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError, WireError
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Options, Output, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire import status
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.registrations import OutputWanted
from millrace_core.wire.topics import NOTIFICATIONS, STATUS, wal_topic
from millrace_wal import MemoryLog, Message, replay

from .conftest import StoredTables

SRC = Table("d", "src", "normal", 7, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
OUT = Table("d", "out", "normal", 8, "ms", (Column("ts", TIMESTAMP), Column("n", BIGINT)))
SUPER = Table("d", "sup", "super", 9, "ms", SRC.columns, (Column("site", DataType("INT")),))
TOPIC = wal_topic("d", "src")
MINUTE = Duration(1, "m")
EVENT = TriggerEvent("i", "CLOSE", "LIVE", Group(7, ("src",), "src"), 60_000, 120_000, 1, 0)


class Desk(StoredTables):
    """A trigger table with one row, an output table."""

    def __init__(self, folder: Path, duck: Any) -> None:
        super().__init__(folder, duck, Database("d", "ms"), SRC, OUT)
        self.store.table(SRC).take([None], [b'{"ts": 60500, "v": 1}'])

    def define(self, uid: int, query: str, **options: Any) -> None:
        made = StreamSpec(
            uid, "d", f"s{uid}", "", Interval(MINUTE, MINUTE), Source(SRC), ("tbname",), Options(**options),
            query=query, database="d", output=Output("d", "out", OUT.columns),
        )  # fmt: skip
        self.learn(StreamEntry(made, "Running", 0, 1))

    def forget(self, table: Table) -> None:
        self.catalog.apply(self.records, key_of(table), None)
        self.records += 1
        self.store.close(wal_topic(table.db, table.name))

    def run(self, uid: int, *events: TriggerEvent) -> Product:
        return self.jobs.run(uid, [TriggerBatch(uid, 0, 0, 1, {}, list(events))], Waits(0))


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    return Desk(tmp_path, duck)


def test_a_query_that_fails_for_ever_says_why_and_is_tried_once(desk: Desk) -> None:
    desk.define(1, "SELECT _twstart AS ts, count(gone) AS n FROM %%trows")
    desk.define(2, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    failed = desk.run(1, EVENT)
    assert failed.status is not None and failed.status.slot is None
    assert "gone" in failed.status.message and failed.messages == []
    well = desk.run(2, EVENT)
    assert well.status is None and len(well.messages) == 1


def test_what_may_still_come_is_no_failure_however_often_it_is_missing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    batch = TriggerBatch(1, 0, 0, 1, {0: 99}, [EVENT])
    assert desk.jobs.wanted(1, [batch]) == Wanted(wal={TOPIC: {0: 99}}, uids={TOPIC: SRC.uid})
    assert desk.jobs.wanted(2, [batch]) == Wanted(), "nobody knows of such a stream"
    lanes = desk.calculator.engine.lane

    def taken(*_: Any) -> Any:
        raise MillraceError(ErrorCode.TIMEOUT, "all places are taken")

    monkeypatch.setattr(desk.calculator.engine, "lane", taken)
    for _ in range(20):
        product = desk.run(1, EVENT)
        assert product.waits is not None and product.waits.message == "all places are taken"
        assert (product.status, product.messages, product.notices) == (None, [], [])
        assert not product.counts
    monkeypatch.setattr(desk.calculator.engine, "lane", lanes)
    well = desk.run(1, EVENT)
    assert (well.waits, well.status) == (None, None) and len(well.messages) == 1


def test_an_output_table_that_was_dropped_is_waited_for_unless_it_cannot_come(desk: Desk) -> None:
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    desk.forget(OUT)
    asked: list[OutputWanted] = []
    desk.jobs.outputs.ask = asked.append
    for _ in range(3):
        product = desk.run(1, EVENT)
        assert product.waits is not None and "d.out was dropped" in product.waits.message
        assert product.status is None
    assert asked == [OutputWanted(1)], "not at every try"
    desk.learn(OUT)
    desk.store.open(OUT)
    assert len(desk.run(1, EVENT).messages) == 1
    desk.forget(OUT)
    desk.learn(SUPER, Child("d", "sup", "out", (1,)))
    product = desk.run(1, EVENT)
    assert product.waits is None and product.status is not None
    assert product.status.message == "the output table d.out no longer exists", "another has its name now"


def test_what_fails_while_a_group_takes_its_leave_is_the_streams_status(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("in a name")

    monkeypatch.setattr(GroupNames, "resolve", broken)
    gone = TriggerEvent("", "GONE", "LIVE", EVENT.group, 0, 0, 0, 0)
    product = desk.run(1, gone)
    assert product.outputs_gone == []
    assert product.status == status.StreamFailure(1, "ZeroDivisionError: in a name")


def test_groups_beyond_those_that_are_remembered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LARGEST", 2)
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    for known in ((1, 2, 3), (3, 4), (4,), (1, 4)):
        events = [msgspec.structs.replace(EVENT, group=Group(one, ("src",), "src")) for one in known]
        product = desk.run(1, *events)
        assert product.status is None and product.messages


def test_max_delay_triggers_that_a_long_calculation_has_missed_are_left_out(desk: Desk) -> None:
    desk.define(1, "SELECT _tlocaltime AS ts, count(*) AS n FROM %%trows", max_delay=Duration(3, "s"))

    def delayed(start: int, at: int) -> TriggerEvent:
        return msgspec.structs.replace(EVENT, cause="DELAY", start=start, localtime=at * 1_000_000)

    waiting = [delayed(60_000, 1), delayed(0, 2), delayed(60_000, 4), delayed(60_000, 7), EVENT]
    product = desk.run(1, *waiting)
    rows = [row for message in product.messages for row in msgspec.json.decode(message.value or b"")]
    assert sorted(row["ts"] for row in rows) == [0, 2, 7], "the last one of each window, and its end"


def test_a_result_that_the_log_refuses_fails_its_stream_alone() -> None:
    log, catalog = MemoryLog(), CatalogView()
    for offset, entry in enumerate((Database("d"), SRC)):
        catalog.apply(offset, key_of(entry), encode(entry))
    log.ensure_topics([(TOPIC, 1), NOTIFICATIONS, STATUS])
    store = SimpleNamespace(missing=lambda _: None, sent=lambda rows, places: None)
    jobs = cast(Any, SimpleNamespace(catalog=catalog, store=store, stop=lambda: None))
    loop = TriggerLoop(log, jobs, Overtaking())
    write = loop._calculating._write
    small = [Message(TOPIC, b"src", b'{"ts":%d}' % i) for i in range(9)]
    huge = Message(TOPIC, b"src", b"x" * 20_000_000)
    assert write([Product(1, small[:5]), Product(2, [small[5], huge]), Product(3, small[6:])])
    assert [record.value for record in replay(log, TOPIC)] == [message.value for message in small]
    told = [status.decode(record.value or b"") for record in replay(log, STATUS.name)]
    (failure,) = [one for one in told if isinstance(one, status.StreamFailure)]
    assert failure.stream == 2
    assert failure.message.startswith(
        "a result could not be written: append to topic wal.d.src: a message has"
    )
    loop.stopping.set()
    loop.end()


def test_a_log_that_is_away_is_waited_for() -> None:
    class Away(MemoryLog):
        def append(self, *_: Any, **__: Any) -> Any:
            raise MillraceError(ErrorCode.UNAVAILABLE, "away")

    refused: list[Message] = []
    with pytest.raises(MillraceError, match="away"):
        append_apart(Away(), [Message("t", None, b"")], lambda message, _: refused.append(message))
    assert refused == []


def test_the_status_of_a_slot_and_of_a_calculation_are_two(desk: Desk) -> None:
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    aside = status.StreamFailure(1, "ValueError: no", 3)
    desk.catalog.apply_status(status.key(aside), status.encode(aside))
    desk.catalog.apply_status(b"applied", status.encode(status.Applied(5)))
    with pytest.raises(WireError):
        desk.catalog.apply_status(b"later", b'{"about":"something newer"}')
    assert desk.catalog.stream_statuses()["d", "s1"] == ("Failed", "ValueError: no")
    assert desk.run(1, EVENT).status is None, "a calculation does not make a slot well"
    well = status.StreamFailure(1, "", 3)
    desk.catalog.apply_status(status.key(well), status.encode(well))
    assert desk.catalog.stream_statuses()["d", "s1"] == ("Running", "")
