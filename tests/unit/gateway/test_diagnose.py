"""DIAGNOSE STREAM at the gateway, with real slots at the other end of the log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from millrace_core.errors import ErrorCode
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.wire import control, diagnosis, status
from millrace_core.wire.topics import CONTROL, REGROUP, STATUS, WAL_PREFIX, slot_of
from millrace_wal import MemoryLog, Message, replay

INTO = "INTO {out} AS SELECT {time} ts, v FROM %%trows"
Answered = dict[tuple[str, str | None], list[Any]]


class Slots(threading.Thread):
    """trigger-svc's slots without Spark: the log in, the log out. ``deaf``: they hear nothing."""

    def __init__(self, log: MemoryLog, slots: int) -> None:
        super().__init__(daemon=True)
        self._log = log
        self._slots = [Slot(number, slots) for number in range(slots)]
        self._at: dict[tuple[str, int], int] = {}
        self._over = threading.Event()
        self.deaf = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.01):
            if not self.deaf.is_set():
                self._batch()

    def stop(self) -> None:
        self._over.set()
        self.join(5)

    def _batch(self) -> None:
        names = [CONTROL.name, REGROUP.name, *self._log.topics(WAL_PREFIX)]
        records = [one for name in names for one in replay(self._log, name)]
        fresh = [one for one in records if one.offset >= self._at.get((one.topic, one.partition), 0)]
        for one in fresh:
            self._at[one.topic, one.partition] = one.offset + 1
        for slot in self._slots:
            has = slot.contents
            mine = [
                (one.topic, one.partition, one.offset, one.timestamp, one.key, one.value)
                for one in fresh
                if one.topic == CONTROL.name or slot_of(one.topic, one.key or b"", has.slots) == has.number
            ]
            if mine:
                sent = slot.on_batch(Messages.of(mine))
                known = set(self._log.topics())
                self._log.append([Message(t, key, value) for t, key, value in sent if t in known])


@pytest.fixture
def it(rig: Any) -> Iterator[Any]:
    rig.trigger.stop()
    slots = Slots(rig.log, rig.gateway.context.settings.slots)
    slots.start()
    rig.slots = slots
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    yield rig
    slots.stop()


def create(it: Any, trigger: str, name: str = "s", options: str = "") -> None:
    words = f"STREAM_OPTIONS({options}) " if options else ""
    time = "_tcurrent_ts" if trigger.startswith("SLIDING") else "_twstart"
    it(f"CREATE STREAM {name} {trigger} FROM one {words}" + INTO.format(out=f"o_{name}", time=time))


def told(it: Any, sql: str = "DIAGNOSE STREAM s", timezone: str = "UTC") -> Answered:
    """(about/item, group) -> amount, ts, te, detail of the last such row."""
    answer = it(sql, timezone=timezone)
    names = [column.name for column in answer.columns]
    assert names == ["about", "group", "item", "amount", "ts", "te", "detail"]
    return {(f"{row[0]}/{row[2]}", row[1]): list(row[3:]) for row in answer.rows}


def of_stream(found: Answered, item: str) -> str:
    return str(found[f"stream/{item}", None][3])


def test_a_stream_without_rows_says_so(it: Any) -> None:
    create(it, "INTERVAL(10s) SLIDING(10s)")
    found = told(it)
    assert of_stream(found, "status") == "Running"
    assert of_stream(found, "verdict").startswith("No row of its trigger table d.one has arrived")
    assert not [key for key in found if key[0].startswith(("group", "window"))]
    assert found["rows/filtered", None][0] == 0


def test_an_open_window_says_what_it_waits_for_in_words(it: Any) -> None:
    create(it, "INTERVAL(10s) SLIDING(10s)", options="WATERMARK(2s)")
    it("INSERT INTO one VALUES ('2026-01-01 00:00:03', 1) ('2026-01-01 00:00:07', 2)")
    found = told(it)
    assert "no window or instant is complete yet" in of_stream(found, "verdict")
    waiting, until, newest, words = found["group/watermark", "one"]
    assert (waiting, newest - until) == (1, 2000)
    assert "WATERMARK(2s)" in words and "ts >= '2026-01-01 00:00:09.000'" in words
    rows, start, end, words = found["window/open", "one"]
    assert (rows, end - start) == (1, 10_000)
    assert words == "waiting for a row with ts >= '2026-01-01 00:00:12.000' (WATERMARK(2s) included)"
    there = told(it, timezone="Asia/Shanghai")["window/open", "one"][3]
    assert "'2026-01-01 08:00:12.000'" in there
    it("INSERT INTO one VALUES ('2026-01-01 00:00:12', 3)")
    found = told(it)
    assert found["window/none_open", "one"][3].startswith(
        "waiting for a row of d.one, and for the watermark to reach it"
    )
    assert "It is running, and has sent 1 trigger events" in of_stream(found, "verdict")


@pytest.mark.parametrize(
    ("trigger", "rows", "words"),
    [
        ("SESSION(ts, 5s)", "(1000, 1)", "a row with ts >= '1970-01-01 00:00:06.001'"),
        ("STATE_WINDOW(v)", "(1000, 1)", "a row with a state other than 1"),
        ("EVENT_WINDOW(START WITH v > 5 END WITH v < 3)", "(1000, 9)", "a row that meets END WITH v < 3"),
        ("EVENT_WINDOW(START WITH v > 5 END WITH v < 3)", "(1000, 4)", "a row that meets START WITH v > 5"),
        ("EVENT_WINDOW(START WITH v > 5 END WITH v < 3) TRUE_FOR(2s)", "(1000, 9)",
         "it counts only if it lasts until '1970-01-01 00:00:03.000' (TRUE_FOR(2s))"),
        ("COUNT_WINDOW(3, 3, v)", "(1000, 9)", "2 more rows in which v is not NULL"),
        ("SLIDING(10s)", "(1000, 9)", "a row with ts >= '1970-01-01 00:00:10.000'"),
    ],
)  # fmt: skip
def test_every_trigger_says_it_in_its_words(it: Any, trigger: str, rows: str, words: str) -> None:
    create(it, trigger)
    it(f"INSERT INTO one VALUES {rows}")
    details = [cells[3] for (item, _), cells in told(it).items() if item.startswith("window/")]
    assert len(details) == 1 and words in details[0]


def test_rows_that_do_not_count_are_counted_by_cause(it: Any) -> None:
    create(it, "SESSION(ts, 5s)", options="PRE_FILTER(v > 0)|IGNORE_DISORDER")
    it("INSERT INTO one VALUES (20000, 0)")
    found = told(it)
    assert of_stream(found, "verdict") == "PRE_FILTER lets none of the 1 rows pass."
    it("INSERT INTO one VALUES (20000, 1)")
    it("INSERT INTO one VALUES (10000, 1)")
    found = told(it)
    assert {name: found[f"rows/{name}", None][0] for name in ("filtered", "late")} == {
        "filtered": 1,
        "late": 1,
    }
    assert "IGNORE_DISORDER" in found["rows/late", None][3]
    assert "that PRE_FILTER lets pass" in found["window/open", "one"][3]


def test_processing_time_is_named(it: Any) -> None:
    create(it, "SESSION(ts, 5s)", options="MAX_DELAY(3s)")
    it("INSERT INTO one VALUES (20000, 1)")
    assert "or for processing time '20" in told(it)["window/open", "one"][3]
    it("CREATE STREAM p PERIOD(1h) FROM one INTO o_p AS SELECT _tlocaltime ts, v FROM one")
    found = told(it, "DIAGNOSE STREAM p")
    assert "has not fired since" in of_stream(found, "verdict")
    assert found["window/instant", "one"][1] is not None
    assert found["window/instant", "one"][3].startswith("waiting for processing time '20")


def test_a_life_that_does_not_trigger_comes_with_its_cause(it: Any) -> None:
    create(it, "SESSION(ts, 5s)")
    uid = it.gateway.context.catalog.streams["d", "s"].spec.uid
    it("STOP STREAM s")
    found = told(it)
    assert of_stream(found, "status") == "Stopped"
    assert "START STREAM d.s starts it" in of_stream(found, "verdict")
    it("START STREAM s")
    failure = status.StreamFailure(uid, "division by zero")
    it.log.append([Message(STATUS.name, status.key(failure), status.encode(failure))])
    it("INSERT INTO one VALUES (1, 1)")
    found = told(it)
    assert of_stream(found, "status") == "Failed: division by zero"
    assert of_stream(found, "verdict") == "Its last calculation failed: division by zero"


def test_slots_that_do_not_answer_are_a_row_not_an_error(it: Any) -> None:
    create(it, "SESSION(ts, 5s)")
    it.slots.deaf.set()
    it.restart(accept_seconds=0.2)
    found = told(it)
    slots = it.gateway.context.settings.slots
    assert found["stream/slots_missing", None][0] == slots
    assert "down or busy" in of_stream(found, "slots_missing")


def test_the_newest_groups_are_shown_and_the_rest_counted(it: Any) -> None:
    it("CREATE STABLE many (ts TIMESTAMP, v INT) TAGS (site INT)")
    it(
        "CREATE STREAM s SESSION(ts, 5s) FROM many PARTITION BY tbname "
        + INTO.format(out="o_many", time="_twstart")
    )
    for number in range(4):
        it(f"INSERT INTO c{number} USING many TAGS ({number}) VALUES ({1000 + number}, 1)")
    found = told(it, "DIAGNOSE STREAM d.s LIMIT 2")
    assert [group for item, group in found if item == "group/watermark"] == ["c3", "c2"]
    assert found["stream/groups_left_out", None][0] == 2
    assert "LIMIT 2" in of_stream(found, "groups_left_out")


def test_answers_do_not_stay_in_the_topic(it: Any) -> None:
    create(it, "SESSION(ts, 5s)")
    told(it)
    last = {one.key: one.value for one in it.records(STATUS.name)}
    mine = {key: value for key, value in last.items() if key.startswith(diagnosis.PREFIX.encode())}
    assert len(mine) == it.gateway.context.settings.slots and set(mine.values()) == {None}
    assert not it.gateway.context.board.diagnoses._parts


def test_bad_questions_are_refused(it: Any) -> None:
    create(it, "SESSION(ts, 5s)")
    for sql, code, text in (
        ("DIAGNOSE STREAM none", ErrorCode.UNKNOWN_STREAM, "d.none"),
        ("DIAGNOSE STREAM s LIMIT 0", ErrorCode.INVALID_VALUE, "LIMIT 0: must be from 1 to 10000"),
        ("DIAGNOSE STREAM s LIMIT 10001", ErrorCode.INVALID_VALUE, "LIMIT 10001"),
        ("DIAGNOSE STREAM s LIMIT x", ErrorCode.SYNTAX, "a number"),
        ("DIAGNOSE s", ErrorCode.SYNTAX, "STREAM"),
    ):
        error = it.refused(sql)
        assert (error.code, text in error.message, error.position is not None) == (code, True, True)
    assert not any(isinstance(one, control.DiagnoseStream) for one in it.controls())
