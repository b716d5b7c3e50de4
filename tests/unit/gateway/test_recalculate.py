"""RECALCULATE STREAM, and what START says of the rows that were written during a stop."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import control

INTERVAL = "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM one INTO out1 AS SELECT _twstart ts, v FROM %%trows"
PERIOD = "CREATE STREAM p PERIOD(1h) FROM one INTO out2 AS SELECT _tlocaltime ts, v FROM one"


@pytest.fixture
def one(rig: Any) -> Any:
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    return rig


def test_a_range_is_told_in_ticks_and_its_end_may_be_open(one: Any) -> None:
    one(INTERVAL)
    uid = one.gateway.context.catalog.streams["d", "s"].spec.uid
    one("RECALCULATE STREAM s FROM '1970-01-01 00:00:01' TO 2500")
    one("RECALCULATE STREAM d.s FROM 1000")
    assert one.controls()[-2:] == [
        control.RecalculateStream(uid, 1000, 2500), control.RecalculateStream(uid, 1000, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "code", "text"),
    [
        ("RECALCULATE STREAM p FROM 0 TO 10", ErrorCode.NOT_ALLOWED, "PERIOD"),
        ("RECALCULATE STREAM none FROM 0", ErrorCode.UNKNOWN_STREAM, "none"),
        ("RECALCULATE STREAM s FROM 10 TO 9", ErrorCode.INVALID_VALUE, "TO 9 is before FROM 10"),
        ("RECALCULATE STREAM s FROM 'soon'", ErrorCode.INVALID_VALUE, "soon"),
        ("RECALCULATE STREAM s", ErrorCode.SYNTAX, "FROM"),
    ],
)
def test_what_cannot_be_recalculated_is_refused(one: Any, sql: str, code: ErrorCode, text: str) -> None:
    one(INTERVAL)
    one(PERIOD)
    before = one.controls()
    with pytest.raises(MillraceError, match=text) as caught:
        one(sql)
    assert caught.value.code is code and caught.value.position is not None
    assert one.controls() == before


def test_start_treats_what_was_written_meanwhile_unless_told_otherwise(one: Any) -> None:
    one(INTERVAL)
    one(
        INTERVAL.replace(" s ", " h ")
        .replace("out1", "out3")
        .replace("INTO", "STREAM_OPTIONS(FILL_HISTORY) INTO")
    )
    for name, words, untreated in (("h", "", True), ("h", "IGNORE UNTREATED ", False), ("s", "", False)):
        one(f"STOP STREAM {name}")
        one(f"START STREAM {words}{name}")
        start = one.controls()[-1]
        assert isinstance(start, control.StartStream) and start.untreated is untreated
