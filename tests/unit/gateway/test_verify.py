"""VERIFY STREAM at the gateway: what it refuses, and what it asks calc-svc."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from api_gateway.session import Session
from calc_svc.jobs.verify import VerifyRequest
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.triggers import read_trigger
from millrace_core.recalc.judged import Judged
from millrace_core.trigger.groups import RANGE

INTERVAL = (
    "CREATE STREAM {name} INTERVAL(1s) SLIDING(1s) FROM one {options} INTO o_{name} "
    "AS SELECT _twstart ts, v FROM %%trows"
)


@pytest.fixture
def one(rig: Any) -> Any:
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    return rig


def create(rig: Any, name: str = "s", options: str = "") -> int:
    rig(INTERVAL.format(name=name, options=f"STREAM_OPTIONS({options})" if options else ""))
    return int(rig.gateway.context.catalog.streams["d", name].spec.uid)


def asked(rig: Any) -> VerifyRequest:
    """The last request, read as calc-svc reads it."""
    path, body = rig.calc.asked[-1]
    assert path == "/verify"
    return msgspec.json.decode(json.dumps(body).encode(), type=VerifyRequest, dec_hook=read_trigger)


def test_calc_svc_is_asked_for_a_range_in_ticks_and_its_answer_is_the_answer(one: Any) -> None:
    one("INSERT INTO one VALUES (1, 1)")
    uid = create(one)
    one.calc.answers(
        ("kind", "VARCHAR(16)", pa.array(["missing"])), ("ts", "TIMESTAMP", pa.array([1000], pa.int64())),
    )  # fmt: skip
    answer = one("VERIFY STREAM s FROM '1970-01-01 08:00:01' TO 2500 LIMIT 7", timezone="Asia/Shanghai")
    assert answer.rows == [("missing", 1000)]
    request = asked(one)
    assert (request.stream, request.first, request.last, request.limit) == (uid, 1000, 2500, 7)
    assert request.timezone == "Asia/Shanghai"
    assert 0 < request.seconds <= one.gateway.context.settings.query_seconds
    assert request.judged == Judged({0: 1}), "the row of before the stream is not its own"
    assert request.wal["wal.d.one"] == {0: 1}


def test_history_and_what_was_recalculated_by_hand_count_whole(one: Any) -> None:
    create(one, options="FILL_HISTORY(500)")
    one("VERIFY STREAM d.s FROM 0 TO 10")
    assert asked(one).judged.whole == ((500, RANGE),)
    create(one, "h")
    one("RECALCULATE STREAM h FROM 100 TO 200")
    one("RECALCULATE STREAM h FROM 150 TO 300")
    one("RECALCULATE STREAM h FROM 400 TO 500")
    one("VERIFY STREAM h FROM 0 TO 10")
    assert asked(one).judged.whole == ((100, 300), (400, 500))


SESSION = "CREATE STREAM x SESSION(ts, 1s) FROM one "


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("CREATE STREAM x PERIOD(1h) FROM one INTO o AS SELECT _tlocaltime ts, v FROM one",
         "triggers by the clock"),
        (SESSION + "NOTIFY('ws://127.0.0.1:1') ON (WINDOW_CLOSE)", "no output table"),
        (SESSION + "STREAM_OPTIONS(CALC_NOTIFY_ONLY) NOTIFY('ws://127.0.0.1:1') ON (WINDOW_CLOSE) "
         "INTO o AS SELECT _twstart ts, v FROM one", "CALC_NOTIFY_ONLY"),
        (SESSION + "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) INTO o AS SELECT _twstart ts, v FROM one",
         "only at WINDOW_OPEN"),
        (SESSION + "INTO o AS SELECT _tlocaltime ts, v FROM %%trows", "_tlocaltime"),
        (SESSION + "INTO o AS SELECT _twstart ts, v FROM one WHERE ts < now()", "uses now"),
    ],
)  # fmt: skip
def test_results_that_cannot_be_made_again_are_refused_with_the_reason(
    one: Any, made: str, text: str
) -> None:
    one(made)
    before = len(one.calc.asked)
    error = one.refused("VERIFY STREAM x FROM 0 TO 1")
    assert error.code is ErrorCode.NOT_ALLOWED and error.position is not None
    assert "VERIFY STREAM d.x" in error.message and text in error.message
    assert len(one.calc.asked) == before


def test_bad_questions_are_refused(one: Any) -> None:
    create(one)
    for sql, code, text in (
        ("VERIFY STREAM none FROM 0 TO 1", ErrorCode.UNKNOWN_STREAM, "d.none"),
        ("VERIFY STREAM s FROM 10 TO 9", ErrorCode.INVALID_VALUE, "TO 9 is before FROM 10"),
        ("VERIFY STREAM s FROM 'soon' TO 9", ErrorCode.INVALID_VALUE, "soon"),
        ("VERIFY STREAM s FROM 0 TO 9 LIMIT 0", ErrorCode.INVALID_VALUE, "LIMIT 0: must be from 1 to 10000"),
        ("VERIFY STREAM s FROM 0", ErrorCode.SYNTAX, "TO"),
        ("VERIFY STREAM s", ErrorCode.SYNTAX, "FROM"),
    ):
        error = one.refused(sql)
        assert (error.code, text in error.message, error.position is not None) == (code, True, True)


def test_reading_the_database_is_enough_for_both_statements(one: Any) -> None:
    create(one)
    one("CREATE USER ann PASS 'Secret-123'")

    def run(sql: str) -> Any:
        return one.gateway.executor.execute(Session("ann", "d", "UTC", 0), sql)

    for sql in ("VERIFY STREAM s FROM 0 TO 1", "DIAGNOSE STREAM s"):
        with pytest.raises(MillraceError, match="privilege to read") as caught:
            run(sql)
        assert caught.value.code is ErrorCode.PERMISSION
    one("GRANT READ ON d.* TO ann")
    assert run("VERIFY STREAM s FROM 0 TO 1").rows == [(0,)]
