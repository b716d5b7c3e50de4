"""Control records that say nothing any more, and that what is left says the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

from api_gateway.upkeep.recovery import Intent
from api_gateway.upkeep.trimming import FLOOR_MS, Trimmer
from millrace_core.recalc.judged import judged_of
from millrace_core.trigger.topic_use import TopicUse
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL

STREAM = (
    "CREATE STREAM {} INTERVAL(1s) SLIDING(1s) FROM {} PARTITION BY tbname, site INTO out_{}"
    " AS SELECT _twstart ts, v FROM %%trows"
)


@pytest.fixture
def meters(rig: Any) -> Any:
    rig("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (site INT)")
    rig("CREATE TABLE m1 USING meters TAGS (1) m2 USING meters TAGS (2)")
    rig.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    return rig


def clean(rig: Any, later: int = FLOOR_MS + 1) -> list[bytes]:
    """What a look of the trimmer deletes, so much later."""
    before = len(rig.records(CONTROL.name))
    assert rig.gateway.context.board.wait_applied(before - 1, 5)
    trimmer = Trimmer(rig.log, rig.gateway.context)
    trimmer.begin()
    while not trimmer._up_to_date():
        trimmer._follow()
    trimmer.trim(time.time_ns() // 1_000_000 + later)
    trimmer.end()
    return [record.key for record in rig.records(CONTROL.name)[before:] if record.value is None]


def compacted(rig: Any) -> list[Any]:
    """The records that compaction leaves, in order."""
    last = {record.key: record for record in rig.records(CONTROL.name)}
    return sorted((one for one in last.values() if one.value is not None), key=lambda one: one.offset)


def meaning(records: list[Any]) -> tuple[Any, ...]:
    intent, use, all_told = Intent(), TopicUse(), []
    for record in records:
        if record.value is not None:
            said = control.decode_control(record.value)
            intent.take(record.offset, said)
            use.apply(said)
            all_told.append(said)
    streams = {uid: said for uid, said in intent.streams.items() if said is not None}
    judged = {uid: judged_of(uid, all_told) for uid in streams}
    return streams, judged, use.wanted, {uid: table.version for uid, table in intent.altered.items()}


def kinds(records: list[Any]) -> list[str]:
    return [type(control.decode_control(record.value)).__name__ for record in records]


def test_every_record_has_a_key_of_its_own(meters: Any) -> None:
    meters(STREAM.format("s", "meters", "s"))
    keys = [record.key for record in meters.records(CONTROL.name)]
    assert len(set(keys)) == len(keys) > 2
    assert all(key.startswith(b"d.s#") for key in keys)


def test_what_is_left_of_streams_that_live_and_streams_that_do_not(meters: Any) -> None:
    for name in ("a", "b"):
        meters(STREAM.format(name, "meters", name))
    for statement in ("STOP STREAM a", "START STREAM a", "STOP STREAM a", "START STREAM a", "DROP STREAM b"):
        meters(statement)
    meters("ALTER TABLE meters ADD COLUMN x INT")
    meters("ALTER TABLE meters ADD COLUMN y INT")
    for span in ("FROM 1000 TO 2000", "FROM 5000 TO 6000", "FROM 4000 TO 7000", "FROM 1500 TO 1600"):
        meters(f"RECALCULATE STREAM a {span}")
    before = meaning(meters.records(CONTROL.name))
    assert clean(meters, later=0) == [], "a minute has not passed"
    assert clean(meters)
    left = kinds(compacted(meters))
    assert left.count("DefineStream") == left.count("StartStream") == left.count("ChangeTable") == 1
    assert left.count("RecalculateStream") == 2
    assert set(left) - {"KnowChildren"} == {
        "DefineStream", "StartStream", "ChangeTable", "RecalculateStream",
    }  # fmt: skip
    assert meaning(compacted(meters)) == before
    assert clean(meters) == [], "once is enough"


def test_what_is_not_in_force_yet_stays(meters: Any) -> None:
    meters(STREAM.format("a", "meters", "a"))
    meters("STOP STREAM a")
    with meters.trigger.busy:
        number = meters.gateway.context.append_control([("d.a", control.DropStream(1))])
        trimmer = Trimmer(meters.log, meters.gateway.context)
        trimmer.begin()
        while not trimmer._up_to_date():
            trimmer._follow()
        assert trimmer._followed.to_delete(number - 1, 1 << 60) == []
        assert len(trimmer._followed.to_delete(number, 1 << 60)) == 1
        trimmer.end()


def test_another_gateway_reads_what_is_left(meters: Any) -> None:
    meters(STREAM.format("a", "meters", "a"))
    meters(STREAM.format("b", "meters", "b"))
    meters("DROP STREAM b")
    clean(meters)
    meters.restart()
    assert [name for _, name in meters.gateway.context.catalog.streams] == ["a"]
    meters("STOP STREAM a")
    assert meters.gateway.context.catalog.streams["d", "a"].wanted == "Stopped"
