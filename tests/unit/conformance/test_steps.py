"""Every kind of step against a gateway that answers from a script: what must pass, and what must not."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_conformance import steps
from millrace_conformance.report import lines


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(steps, "RUNNING_SECONDS", 0.5)
    monkeypatch.setattr(steps, "FIRST_PAUSE", 0.1)


EXPECT = """
- sql: INSERT INTO {db}.t VALUES (1)
- expect:
    sql: SELECT ts, n FROM {db}.out
    rows:
      - ['2026-01-01 00:00:01.000', 4]
      - ['2026-01-01 00:00:02.000', null]
    within: 300ms
"""
FIRST, SECOND = ["2026-01-01T00:00:01.000Z", 4], ["2026-01-01T00:00:02.000Z", None]


def test_expect_waits_for_the_rows(stage: Any) -> None:
    script = {"SELECT ts": [stage.refusal("no table yet"), stage.rows([FIRST]), stage.rows([FIRST, SECOND])]}
    assert stage.play(EXPECT, script).failure is None
    assert stage.gateway.heard[0] == "INSERT INTO DB.t VALUES (1)"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [FIRST],
        [FIRST, SECOND, SECOND],
        [SECOND, FIRST],
        [["2026-01-01T00:00:01.001Z", 4], SECOND],
        [["2026-01-01T00:00:01.000Z", 5], SECOND],
        [["2026-01-01T00:00:01.000Z", "4"], SECOND],
        [FIRST, ["2026-01-01T00:00:02.000Z", 0]],
    ],
)
def test_expect_refuses_wrong_rows(stage: Any, rows: list[list[Any]]) -> None:
    outcome = stage.play(EXPECT, {"SELECT ts": stage.rows(rows, ["TIMESTAMP", "INT"])})
    assert outcome.word == "FAIL"
    assert outcome.failure.number == 2
    assert outcome.failure.expected.startswith("2 rows\n  ['2026-01-01 00:00:01.000', 4]")
    assert outcome.failure.came.startswith(f"{len(rows)} row")


def test_expect_reports_the_last_error(stage: Any) -> None:
    outcome = stage.play(EXPECT, {"SELECT ts": stage.refusal("Table does not exist")})
    assert "Table does not exist" in outcome.failure.came


def test_unordered_rows(stage: Any) -> None:
    rows = {"SELECT a": stage.rows([[2], [1]])}
    step = "- expect: {{sql: 'SELECT a FROM t', rows: [[1], [2]], within: 200ms, ordered: {}}}"
    assert stage.play(step.format("false"), rows).word == "PASS"
    assert stage.play(step.format("true"), rows).word == "FAIL"


def test_times_are_those_of_the_case_zone(stage: Any) -> None:
    step = "- expect: {sql: SELECT ts, rows: [['2026-01-01 09:00:01.000']], within: 200ms}"
    script = {"SELECT ts": stage.rows([["2026-01-01T00:00:01.000Z"]])}
    assert stage.play(step, script, timezone="Asia/Tokyo").word == "PASS"
    assert stage.gateway.parameters[0] == {"tz": "Asia/Tokyo"}
    assert stage.play(step, script, timezone="UTC").word == "FAIL"


STAYS = "- stays: {sql: SELECT n, rows: [[1]], for: 1200ms, within: 300ms}"


def test_stays(stage: Any) -> None:
    outcome = stage.play(STAYS, {"SELECT n": [stage.rows([[0]]), stage.rows([[1]])]})
    assert outcome.word == "PASS"
    assert outcome.seconds > 1.2


@pytest.mark.parametrize("later", [[[2]], [], [[1], [1]]])
def test_stays_refuses_a_change(stage: Any, later: list[list[int]]) -> None:
    outcome = stage.play(STAYS, {"SELECT n": [stage.rows([[1]]), stage.rows(later)]})
    assert outcome.failure.came.startswith("after 1.")


def test_stays_refuses_what_never_came(stage: Any) -> None:
    assert stage.play(STAYS, {"SELECT n": stage.rows([[2]])}).word == "FAIL"


def test_a_statement_must_succeed_and_the_case_ends_where_it_does_not(stage: Any) -> None:
    outcome = stage.play("- sql: [A, B, C]\n- sql: D", {"B": stage.refusal("syntax error near B")})
    assert "syntax error near B" in outcome.failure.came
    assert stage.gateway.heard[:2] == ["A", "B"]
    assert not {"C", "D"} & set(stage.gateway.heard)


ERROR = "- error: {sql: CREATE STREAM s, match: '(?i)period'}"


def test_error(stage: Any) -> None:
    assert stage.play(ERROR, {"CREATE STREAM": stage.refusal("PERIOD is too short")}).word == "PASS"


def test_error_refuses_success(stage: Any) -> None:
    outcome = stage.play(ERROR, {})
    assert outcome.word == "FAIL"
    assert "succeeded" in outcome.failure.came


def test_error_refuses_another_message(stage: Any) -> None:
    assert stage.play(ERROR, {"CREATE STREAM": stage.refusal("no such table")}).word == "FAIL"


def test_error_refuses_a_failure_of_the_gateway(stage: Any) -> None:
    outcome = stage.play(ERROR, {"CREATE STREAM": stage.refusal("period: internal error", 0x0100)})
    assert outcome.word == "FAIL"
    assert "not refused, but failed" in outcome.failure.came


AS = "as: {user: '{db}_r', pass: Secret_123}"


@pytest.mark.parametrize(
    "step",
    [
        "sql: {%s, run: [A, B]}",
        "sql: {%s, run: A}",
        "expect: {sql: Q, rows: [[1]], within: 100ms, %s}",
        "stays: {sql: Q, rows: [[1]], within: 100ms, for: 10ms, %s}",
        "error: {sql: E, %s}",
    ],
)
def test_a_step_is_sent_by_the_user_that_it_names(stage: Any, step: str) -> None:
    script = {"Q": stage.rows([[1]]), "E": stage.refusal("Insufficient privilege")}
    outcome = stage.play(f"- sql: MINE\n- {step % AS}\n- sql: MINE", script)
    assert outcome.failure is None
    said = list(zip(stage.gateway.heard, stage.gateway.users, strict=True))
    asked = [user for text, user in said if text in ("A", "B", "Q", "E")]
    assert asked
    assert set(asked) == {"DB_r"}
    assert {user for text, user in said if text not in ("A", "B", "Q", "E")} == {"root"}


def test_a_wrong_password_fails_the_step(stage: Any) -> None:
    outcome = stage.play("- sql: {as: {user: '{db}_r', pass: wrong}, run: [A]}", {})
    assert "Authentication failure" in outcome.failure.came


def test_running(stage: Any) -> None:
    columns = ("stream_name", "status", "message")
    row = lambda *values: stage.rows([values], ["VARCHAR"] * 3, columns)  # noqa: E731
    script = {"SHOW DB.STREAMS": [row("s1", "Init", ""), row("s1", "Running", "")]}
    assert stage.play("- running: [s1]", script).word == "PASS"
    assert stage.play("- running: [s1]", {"SHOW DB.STREAMS": row("s1", "Failed", "")}).word == "FAIL"
    assert stage.play("- running: [s2]", script).word == "FAIL"


def test_running_streams_of_the_older_dialect_are_global(stage: Any) -> None:
    def shows(name: str, *states: str) -> dict[str, Any]:
        rows = [stage.rows([[name, state]], ["VARCHAR"] * 2, ["stream_name", "status"]) for state in states]
        return {"SHOW STREAMS": rows}

    outcome = stage.play("- running: ['other_s1']", shows("DB_x", "failed"), dialect="tdengine-legacy")
    assert "other_s1" in outcome.failure.expected
    # a statement says itself which dialect it is in
    assert stage.gateway.parameters[0] == {"tz": "UTC"}
    wanted = "- sql: USE {db}\n- running: ['{db}_x']"
    runs = stage.play(wanted, shows("DB_x", "init", "ready"), dialect="tdengine-legacy")
    assert runs.failure is None
    failed = stage.play(wanted, shows("DB_x", "failed"), dialect="tdengine-legacy")
    assert "to be ready" in failed.failure.expected


def test_sleep(stage: Any) -> None:
    outcome = stage.play("- sleep: 300ms", {})
    assert outcome.word == "PASS"
    assert outcome.seconds > 0.3


def test_restart(stage: Any) -> None:
    assert stage.play("- restart: calc-svc", {}).word == "PASS"
    assert stage.gateway.restarted == ["calc-svc"]


def test_restart_of_what_does_not_run(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: Any, service: str) -> None:
        raise RuntimeError(f"{service} is not running")

    monkeypatch.setattr(type(stage.gateway), "restart", refuse)
    assert stage.play("- restart: calc-svc", {}).failure.came == "calc-svc is not running"


@pytest.mark.parametrize(("found", "topic"), [("meters", "meters"), (None, "d1")])
def test_produce(stage: Any, found: str | None, topic: str) -> None:
    step = "- produce: {table: '{db}.d1', rows: [{ts: 1, v: 2.5, note: '{x}'}]}"
    script = {"SELECT db_name, stable_name": stage.rows([["DB", found]], ["VARCHAR", "VARCHAR"])}
    outcome = stage.play(step, script)
    assert outcome.failure is None
    (one,) = stage.gateway.produced
    assert one == (f"wal.{outcome.db}.{topic}", "d1", '{"ts": 1, "v": 2.5, "note": "{x}"}')


def test_rows_of_a_device_go_to_the_table_of_devices(stage: Any) -> None:
    step = "- produce: {table: 'root.{db}.a.d1', rows: [{time: 1, v: 2.5}]}"
    script = {"SELECT db_name, stable_name": stage.rows([["root.DB", "devices"]], ["VARCHAR", "VARCHAR"])}
    outcome = stage.play(step, script, dialect="iotdb")
    assert outcome.failure is None
    (one,) = stage.gateway.produced
    assert one.topic == f"wal.root-2e{outcome.db}.devices"
    assert (one.key, one.value) == (f"root.{outcome.db}.a.d1", '{"time": 1, "v": 2.5}')
    assert "dialect" not in stage.gateway.parameters[0]


def test_produce_needs_the_table(stage: Any) -> None:
    script = {"SELECT db_name, stable_name": stage.rows([])}
    assert stage.play("- produce: {table: '{db}.d1', rows: [{ts: 1}]}", script).word == "FAIL"
    assert stage.gateway.produced == []


# -- notifications ---------------------------------------------------------------------------------------

CREATE = "- sql: [\"CREATE STREAM s1 NOTIFY('{notify}')\", GO]\n"


def event(start: int, **more: Any) -> dict[str, Any]:
    fields = {"eventType": "WINDOW_CLOSE", "groupId": "0", "triggerId": f"t{start}", "windowStart": start}
    return {"streamName": "DB.s1", **fields, **more}


def notified(*events: str, complete: bool = False) -> str:
    listed = "".join(f"\n    - {one}" for one in events)
    flag = str(complete).lower()
    return f"{CREATE}- notifications:\n    within: 600ms\n    complete: {flag}\n    events:{listed or ' []'}"


ONE = "{streamName: '{db}.s1', windowStart: 1}"
TWO = "{streamName: '{db}.s1', windowStart: 2}"


@pytest.mark.parametrize("complete", [False, True])
def test_notifications(stage: Any, complete: bool) -> None:
    script = {"GO": stage.push([event(1), event(2)], 0.2)}
    assert stage.play(notified(ONE, TWO, complete=complete), script).failure is None


def test_a_missing_notification_is_refused(stage: Any) -> None:
    outcome = stage.play(notified(ONE, TWO), {"GO": stage.push([event(1)])})
    assert outcome.word == "FAIL"
    assert "no event like" in outcome.failure.came and "arrived" in outcome.failure.came
    assert "'windowStart': 2" in outcome.failure.came


def test_an_extra_notification_is_refused_under_complete_alone(stage: Any) -> None:
    script = {"GO": stage.push([event(1), event(2), event(3)])}
    assert stage.play(notified(ONE, TWO), script).word == "PASS"
    outcome = stage.play(notified(ONE, TWO, complete=True), script)
    assert outcome.failure.came.startswith("1 more events arrived than expected")


def test_an_extra_notification_that_comes_later_is_refused(stage: Any) -> None:
    steps_ = notified(ONE, complete=True).replace("GO]", "GO, LATER]")
    script = {"GO": stage.push([event(1)]), "LATER": stage.push([event(2)], 0.25)}
    assert stage.play(steps_, script).word == "FAIL"


def test_no_event_at_all_may_come_where_none_is_named(stage: Any) -> None:
    assert stage.play(notified(complete=True), {}).word == "PASS"
    assert stage.play(notified(complete=True), {"GO": stage.push([event(1)], 0.1)}).word == "FAIL"


def test_events_of_other_streams_do_not_count(stage: Any) -> None:
    script = {"GO": stage.push([event(1), event(1, streamName="DB.s2")])}
    assert stage.play(notified(ONE, complete=True), script).word == "PASS"


def test_order_within_a_group_counts(stage: Any) -> None:
    assert stage.play(notified(ONE, TWO), {"GO": stage.push([event(2), event(1)])}).word == "FAIL"
    script = {"GO": stage.push([event(2, groupId="8"), event(1, groupId="7")])}
    assert stage.play(notified(ONE, TWO), script).word == "PASS"


def test_bindings_hold_in_the_whole_case(stage: Any) -> None:
    steps_ = notified(ONE.replace("}.", "}.").replace("windowStart: 1", "triggerId: $x, windowStart: 1"))
    steps_ += "\n- notifications: {within: 300ms, events: [{streamName: '{db}.s1', key: $x}]}"
    assert stage.play(steps_, {"GO": stage.push([event(1), event(2, key="t1")])}).word == "PASS"
    assert stage.play(steps_, {"GO": stage.push([event(1), event(2, key="t2")])}).word == "FAIL"


def test_events_may_come_again_after_a_crash_alone(stage: Any) -> None:
    again = {"GO": stage.push([event(1, eventTime=5), event(2), event(1, eventTime=6)])}
    plain = notified(ONE, TWO, complete=True)
    assert stage.play(plain, again).word == "FAIL"
    assert stage.play("- restart: notify-svc\n" + plain, again).word == "PASS"
    changed = {"GO": stage.push([event(1), event(2), event(1, result={"n": 2})])}
    assert stage.play("- restart: notify-svc\n" + plain, changed).word == "FAIL"


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        "[]",
        '{"streams": []}',
        '{"messageId": "1", "timestamp": 1, "streams": [{"streamName": "s", "events": [{"x": 1}]}]}',
        '{"messageId": "1", "timestamp": 1, "streams": [{"events": [{"eventType": "WINDOW_OPEN"}]}]}',
    ],
)
def test_a_message_of_another_form_is_refused(stage: Any, message: str) -> None:
    outcome = stage.play(notified(ONE), {"GO": stage.push([event(1), message])})
    assert outcome.failure.expected == "messages as the seed describes them"


# -- around the steps ------------------------------------------------------------------------------------


def test_everything_is_dropped_streams_first_failed_or_not(stage: Any) -> None:
    names = ["mine", "information_schema"]
    script = {
        "SHOW DATABASES": stage.rows([[one] for one in names], ["VARCHAR"], ["name"]),
        "BAD": stage.refusal("no"),
    }
    outcome = stage.play("- sql: BAD", script)
    assert outcome.word == "FAIL"
    assert not any("DROP" in one for one in stage.gateway.heard)  # none of these is the case's


def test_what_cannot_be_dropped_is_told(stage: Any) -> None:
    outcome = stage.play("- sql: FINE", {"SHOW DATABASES": stage.refusal("busy")})
    assert outcome.word == "PASS"
    assert "not cleaned up: busy (code 0x2600)" in lines(outcome)[1]


def test_a_failure_names_the_place(stage: Any) -> None:
    shown = lines(stage.play(EXPECT, {"SELECT ts": stage.rows([FIRST])}))
    assert shown[0].startswith("FAIL one a case of the runner's own tests ")
    assert "step 2, expect" in shown[1]
    assert shown[1].endswith(f"{stage.folder}/one.yaml:10 (database {shown[1].split()[-1]}")
    assert shown[2] == f"    sql:      SELECT ts, n FROM {shown[1].split()[-1][:-1]}.out"
    assert shown[3] == "    expected: 2 rows"
