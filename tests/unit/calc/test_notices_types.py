"""Notifications of every trigger type, and streams from their events to what they write and tell."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from millrace_core.calc.notices import notices
from millrace_core.calc.outcome import Outcome
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import (
    Condition,
    Duration,
    Notify,
    Options,
    Output,
    ResultColumn,
    Source,
    StreamSpec,
)
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Count, Event, Interval, Period, Session, Sliding, State
from millrace_core.wire import notices as wire
from millrace_core.wire.events import EventKind, Group, TriggerBatch, TriggerEvent
from millrace_core.wire.notices import Notice
from millrace_core.wire.topics import wal_topic

from .conftest import StoredTables

S10 = Duration(10, "s")
CONDITION = Condition("v > 0", ("v",))
TRIGGERS: dict[str, Trigger] = {
    "Period": Period(S10), "Sliding": Sliding(S10), "Interval": Interval(S10, S10), "Session": Session(S10),
    "State": State("v"), "Event": Event(CONDITION, CONDITION), "Count": Count(3, 3),
}  # fmt: skip
DETAILS: dict[str, dict[EventKind, dict[str, object]]] = {
    "State": {"OPEN": {"prevState": None, "curState": 1}, "CLOSE": {"curState": 1, "nextState": 2}},
    "Event": {
        "OPEN": {"triggerCondition": {"conditionIndex": 0, "fieldValue": {"v": 5}}},
        "CLOSE": {"triggerCondition": {"conditionIndex": 1, "fieldValue": {"v": 0}}},
    },
}
BOTH = ("WINDOW_OPEN", "WINDOW_CLOSE")
GROUP = Group(0, (), None)
RESULT = (ResultColumn("n", BIGINT),)
SHARED = {"eventTime", "triggerId", "groupId", "eventType", "triggerType"}


def event(kind: EventKind, trigger: str, cause: Any = "LIVE") -> TriggerEvent:
    detail = DETAILS.get(trigger, {}).get(kind)
    return TriggerEvent("id", kind, cause, GROUP, 60_000, 70_000, 3, 5_000_000_000, 80_000, detail)


def spec(trigger: str, **more: Any) -> StreamSpec:
    return StreamSpec(1, "d", "s", "", TRIGGERS[trigger], notify=Notify(("ws://a",), BOTH), **more)


def told(spec: StreamSpec, found: TriggerEvent, outcome: Outcome | None) -> list[Notice]:
    texts = notices(spec, RESULT, [(found, outcome)], lambda group: None, (1, 1))
    return wire.decode(wire.encode(wire.TextBatch(texts))).notices


ONE = Outcome(pl.DataFrame({"r0": [3]}))


@pytest.mark.parametrize(("trigger", "type_"), [
    ("Interval", "Time"), ("Session", "Session"), ("State", "State"), ("Event", "Event"), ("Count", "Count"),
])  # fmt: skip
def test_a_window_may_be_told_of_by_its_own_id_and_type(trigger: str, type_: str) -> None:
    """Seed 002, the fields of an event."""
    older = msgspec.structs.replace(spec(trigger), db="", notices="window")
    (notice,) = told(older, event("CLOSE", trigger), ONE)
    detail = DETAILS.get(trigger, {}).get("CLOSE", {})
    named = hashlib.md5(b"s,0", usedforsecurity=False).hexdigest()
    assert notice.stream == "s"
    assert notice.event == {
        "tableName": f"t_{named}", "eventType": "WINDOW_CLOSE", "eventTime": 5_000, "windowId": "id",
        "windowType": type_, "groupId": "0", "windowStart": 60_000, "windowEnd": 70_000,
        "result": {"n": 3}, **detail,
    }  # fmt: skip


@pytest.mark.parametrize(("events", "sent"), [(("WINDOW_CLOSE",), True), (("WINDOW_OPEN",), False)])
def test_who_is_told_of_closings_is_told_of_windows_that_are_none_any_more(
    events: tuple[Any, ...], sent: bool
) -> None:
    older = msgspec.structs.replace(spec("State"), notices="window", notify=Notify(("ws://a",), events))
    (notice,) = told(older, event("INVALID", "State"), None)
    assert notice.urls == (("ws://a",) if sent else ())
    assert "result" not in notice.event
    (newer,) = told(msgspec.structs.replace(older, notices="trigger"), event("INVALID", "State"), None)
    assert newer.urls == ("ws://a",)


@pytest.mark.parametrize("trigger", ["Interval", "Session", "State", "Event", "Count"])
def test_windows_tell_their_start_and_at_the_close_their_end_and_result(trigger: str) -> None:
    opening = told(spec(trigger), event("OPEN", trigger), None)[0].event
    extra = {kind: set(fields) for kind, fields in DETAILS.get(trigger, {}).items()}
    assert set(opening) == SHARED | {"windowStart"} | extra.get("OPEN", set())
    assert (opening["eventType"], opening["triggerType"], opening["windowStart"]) == (
        "WINDOW_OPEN", trigger, 60_000,
    )  # fmt: skip
    closing = told(spec(trigger), event("CLOSE", trigger), ONE)[0].event
    assert set(closing) == SHARED | {"windowStart", "windowEnd", "result"} | extra.get("CLOSE", set())
    assert (closing["windowEnd"], closing["result"]) == (70_000, {"n": 3})
    for key, value in DETAILS.get(trigger, {}).get("CLOSE", {}).items():
        assert closing[key] == value
    gone = told(spec(trigger), event("INVALID", trigger), None)[0].event
    assert gone["eventType"] == "WINDOW_INVALIDATION"
    assert {"windowStart", "windowEnd"} < set(gone) and "result" not in gone


@pytest.mark.parametrize("trigger", ["Period", "Sliding"])
def test_instants_tell_no_window(trigger: str) -> None:
    silent = msgspec.structs.replace(spec(trigger), notify=Notify(("ws://a",)))
    (notice,) = told(silent, event("ON_TIME", trigger), ONE)
    assert set(notice.event) == SHARED | {"result"}
    assert (notice.event["eventType"], notice.event["triggerType"]) == ("ON_TIME", trigger)
    assert notice.urls == ("ws://a",)


def test_max_delay_does_not_say_that_the_window_has_closed() -> None:
    assert told(spec("State"), event("CLOSE", "State", "DELAY"), ONE) == []
    assert len(told(spec("State"), event("CLOSE", "State", "RECALC"), ONE)) == 1


# -- whole jobs ----------------------------------------------------------------------------------------------

SRC = Table("d", "src", "normal", 7, "us", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
OUT = Table("d", "out", "normal", 8, "us", (Column("ts", TIMESTAMP), Column("n", BIGINT)))


class Desk(StoredTables):
    """A trigger table with two rows, an output table."""

    def __init__(self, folder: Path, duck: Any) -> None:
        super().__init__(folder, duck, Database("d", "us"), SRC, OUT)
        self.store.table(SRC).take([None], [b'[{"ts": 60500, "v": 1}, {"ts": 70000, "v": 2}]'])

    def run(self, made: StreamSpec, *events: TriggerEvent) -> tuple[list[object], list[dict[str, object]]]:
        """The rows written and the events told of."""
        self.learn(StreamEntry(made, "Running", 0, 1))
        product = self.jobs.run(made.uid, [TriggerBatch(made.uid, 0, 0, 1, {}, list(events))])
        assert product.status is None
        assert {message.topic for message in product.messages} <= {wal_topic("d", "out")}
        rows = [row for message in product.messages for row in msgspec.json.decode(message.value or b"")]
        return rows, [notice.event for notice in product.notices]


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    return Desk(tmp_path, duck)


QUERY = "SELECT _twstart AS ts, count(*) AS n FROM %%trows"


def stored(trigger: str, query: str = QUERY, **more: Any) -> StreamSpec:
    output = Output("d", "out", OUT.columns)
    return spec(trigger, source=Source(SRC), output=output, query=query, database="d", **more)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_stream_without_calculation_only_tells(desk: Desk, trigger: str) -> None:
    made = spec(trigger, source=None if trigger == "Period" else Source(SRC))
    kinds: list[EventKind] = ["ON_TIME"] if trigger in ("Period", "Sliding") else ["OPEN", "CLOSE"]
    rows, events = desk.run(made, *(event(kind, trigger) for kind in kinds))
    assert rows == []
    names = {"ON_TIME": "ON_TIME", "OPEN": "WINDOW_OPEN", "CLOSE": "WINDOW_CLOSE"}
    assert [found["eventType"] for found in events] == [names[kind] for kind in kinds]
    assert not any({"tableName", "result"} & set(found) for found in events)


def test_on_and_event_type_are_independent(desk: Desk) -> None:
    both = (event("OPEN", "Session"), event("CLOSE", "Session"))
    made = stored(
        "Session", options=Options(event_types=("WINDOW_OPEN",)), query="SELECT _twstart AS ts, 5 AS n"
    )
    rows, events = desk.run(made, *both)
    assert rows == [{"ts": 60_000, "n": 5}]
    assert [(e["eventType"], e.get("result")) for e in events] == [
        ("WINDOW_OPEN", {"ts": 60_000, "n": 5}), ("WINDOW_CLOSE", None),
    ]  # fmt: skip
    quiet = msgspec.structs.replace(stored("Session"), uid=2, notify=Notify(("ws://a",), ("WINDOW_OPEN",)))
    rows, events = desk.run(quiet, *both)
    assert rows == [{"ts": 60_000, "n": 2}], "calculated at the close, though only the opening is told of"
    assert [e["eventType"] for e in events] == ["WINDOW_OPEN", "WINDOW_CLOSE"]
    product = desk.jobs.run(2, [TriggerBatch(2, 0, 0, 2, {}, list(both))])
    assert [notice.urls for notice in product.notices] == [("ws://a",), ()]


def test_a_delayed_trigger_calculates_what_there_is_and_tells_nothing(desk: Desk) -> None:
    rows, events = desk.run(stored("State"), event("CLOSE", "State", "DELAY"))
    assert (rows, events) == ([{"ts": 60_000, "n": 2}], [])


@pytest.mark.parametrize(
    ("trigger", "count"),
    [("Interval", 1), ("Session", 2), ("State", 2), ("Event", 2), ("Count", 2)],
)
def test_rows_of_windows_end_with_or_before_their_end(desk: Desk, trigger: str, count: int) -> None:
    rows, _ = desk.run(stored(trigger), event("CLOSE", trigger))
    assert rows == [{"ts": 60_000, "n": count}]


def test_rows_of_a_sliding_trigger_begin_behind_the_one_before(desk: Desk) -> None:
    query = "SELECT _tcurrent_ts AS ts, count(*) AS n FROM %%trows"
    made = stored("Sliding", query)
    at = [
        msgspec.structs.replace(event("ON_TIME", "Sliding"), start=a, end=b)
        for a, b in ((60_500, 70_000), (0, 60_500))
    ]
    rows, events = desk.run(made, *at)
    assert rows == [{"ts": 70_000, "n": 1}, {"ts": 60_500, "n": 1}]
    assert [found["tableName"] for found in events] == ["out", "out"]


def test_a_period_without_table_has_its_planned_instant(desk: Desk) -> None:
    query = "SELECT cast(_tlocaltime/1000 AS TIMESTAMP) AS ts, count(*) AS n FROM src"
    made = msgspec.structs.replace(stored("Period", query), source=None)
    found = msgspec.structs.replace(event("ON_TIME", "Period"), start=0, end=70_000_000)
    rows, events = desk.run(made, found)
    assert rows == [{"ts": 70_000, "n": 2}]
    assert events[0]["result"] == {"ts": 70_000, "n": 2}
