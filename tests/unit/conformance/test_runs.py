"""Whole runs: side by side and alone, disputes, exit status, cleaning up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace_conformance import __main__ as command
from millrace_conformance import cleanup
from millrace_conformance.case import runs_alone, split
from millrace_conformance.gateway import Broken, read
from millrace_conformance.load import Dispute
from millrace_conformance.report import summary

SLOW = "- sql: [A, B, C, D, E, F]"


def test_cases_run_side_by_side_but_no_more_than_allowed(stage: Any) -> None:
    cases = [stage.case(SLOW, f"case-{number}") for number in range(12)]
    outcomes = stage.play_all(cases, {}, jobs=4)
    assert {one.case.id for one in outcomes} == {one.id for one in cases}
    assert 2 <= stage.gateway.most_busy <= 4
    stage.play_all(cases[:3], {}, jobs=1)
    assert stage.gateway.most_busy == 1


def test_cases_that_kill_or_list_everything_run_alone(stage: Any) -> None:
    shows = "- expect: {sql: 'show  cqs', rows: []}"
    cases = [
        stage.case("- restart: calc-svc", "kills"),
        stage.case(SLOW, "plain"),
        stage.case(shows, "lists", dialect="iotdb"),
        stage.case("- error: {sql: SHOW TRIGGERS}", "lists-too", dialect="iotdb"),
        stage.case(shows, "another-dialect"),
        stage.case("- sql: SHOW DATABASES", "shows-else", dialect="iotdb"),
        stage.case("- sql: drop snode on dnode 1", "drops-snode"),
        stage.case("- sql: SHOW SNODES", "shows-snodes"),
    ]
    together, alone = split(cases)
    assert [one.id for one in alone] == ["kills", "lists", "lists-too", "drops-snode"]
    assert not any(runs_alone(one) for one in together)


def test_lone_cases_come_after_all_others(stage: Any) -> None:
    cases = [stage.case("- restart: calc-svc\n- sql: LONE", "kills")]
    cases += [stage.case(SLOW, f"case-{number}") for number in range(3)]
    stage.play_all(cases, {})
    heard = stage.gateway.heard
    assert heard.index("LONE") > max(number for number, one in enumerate(heard) if one == "F")


def test_every_case_has_a_database_of_its_own(stage: Any) -> None:
    outcomes = stage.play_all([stage.case("- sql: X", f"case-{number}") for number in range(5)], {})
    names = {one.db for one in outcomes}
    assert len(names) == 5
    assert not any(one != other and one.startswith(other) for one in names for other in names)


def test_disputed_cases_are_played_but_do_not_count(stage: Any) -> None:
    cases = [stage.case("- sql: BAD", "wrong"), stage.case("- sql: FINE", "right")]
    disputes = {"wrong": Dispute("it expects too much.", "a sentence")}
    outcomes = stage.play_all(cases, {"BAD": stage.refusal("no")}, disputes=disputes)
    assert sorted(one.word for one in outcomes) == ["DISPUTED", "PASS"]
    assert summary(outcomes) == ["1 disputed, not counted", "1 passed, 0 failed"]
    assert summary(stage.play_all(cases, {"BAD": stage.refusal("no")}))[-1] == "1 passed, 1 failed"


def test_a_fault_of_the_runner_fails_one_case_alone(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fault(self: Any, what: Any) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(type(stage.gateway), "produce", fault)
    steps = "- produce: {table: '{db}.t', rows: [{ts: 1}]}"
    script = {"SELECT db_name, stable_name": stage.rows([["DB", "st"]], ["VARCHAR", "VARCHAR"])}
    outcomes = stage.play_all([stage.case(steps, "bad"), stage.case(SLOW, "good")], script)
    assert {one.case.id: one.word for one in outcomes} == {"bad": "FAIL", "good": "PASS"}
    (failed,) = [one for one in outcomes if one.failure]
    assert failed.failure.came == "ValueError: a fault"


DATABASES = ("DB", "DB_sink", "c9999999999")
TDENGINE = [
    "DROP STREAM IF EXISTS DB.s1",
    "DROP STREAM IF EXISTS DB.`Mixed`",
    "DROP DATABASE IF EXISTS DB",
    "DROP DATABASE IF EXISTS DB_sink",
    "DROP USER DB_u",
]
LEGACY = [
    "DROP STREAM IF EXISTS DB_s1",
    "DROP DATABASE IF EXISTS DB",
    "DROP DATABASE IF EXISTS DB_sink",
    "DROP USER DB_u",
]
IOTDB = ["DROP CQ DB_s1", "DROP TRIGGER DB_s1", "DELETE DATABASE root.DB", "DELETE DATABASE root.DB_sink"]


@pytest.mark.parametrize("statement", ["FINE {db}", "BAD {db}"])
@pytest.mark.parametrize(
    ("dialect", "drops"), [("tdengine", TDENGINE), ("tdengine-legacy", LEGACY), ("iotdb", IOTDB)]
)
def test_what_carries_the_name_is_dropped_databases_last(
    stage: Any, dialect: str, drops: list[str], statement: str
) -> None:
    prefix = "root." if dialect == "iotdb" else ""
    listed = stage.rows([["DB_s1"], ["c9999999999_s1"]], ["VARCHAR"], ["stream_name"])
    script = {
        "SHOW DATABASES": stage.rows([[prefix + one] for one in DATABASES], ["VARCHAR"], ["name"]),
        "SHOW DB.STREAMS": stage.rows([["s1"], ["Mixed"]], ["VARCHAR"], ["stream_name"]),
        "SHOW DB_sink.STREAMS": stage.rows([]),
        "SHOW STREAMS": listed,
        "SELECT name": stage.rows([["root"], ["DB_u"], ["c9999999999_u"]], ["VARCHAR"], ["name"]),
        "SHOW CQS": listed,
        "SHOW TRIGGERS": listed,
        "BAD": stage.refusal("no"),
    }
    stage.play(f"- sql: {statement}", script, dialect=dialect)
    assert [one for one in stage.gateway.heard if one.startswith(("DROP", "DELETE"))] == drops


def test_names_are_quoted_where_they_must_be() -> None:
    assert [cleanup.quoted(one) for one in ("ab_1", "Ab", "1a", "a-b")] == ["ab_1", "`Ab`", "`1a`", "`a-b`"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"desc": "no code"},
        {"code": 0},
        {"code": 0, "column_meta": [["a", "INT", 4]], "data": [[1, 2]], "rows": 1},
        {"code": 0, "column_meta": [["a", "INT", 4]], "data": [[1]], "rows": 2},
    ],
)
def test_an_answer_of_another_form_is_a_failure(body: Any) -> None:
    with pytest.raises(Broken):
        read(200, body)


# -- the command -----------------------------------------------------------------------------------------


def test_files_that_are_no_cases_end_the_run_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("id: bad\nsteps: [")
    (tmp_path / "worse.yaml").write_text("id: other\n")
    assert command.main([str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}/bad.yaml:2:" in told
    assert f"{tmp_path}/worse.yaml:1: a case must have 'title'" in told


def test_no_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path / "none")]) == 2
    assert "there are no cases at" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_jobs_is_a_number(jobs: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        command.main(["x", f"--jobs={jobs}"])
    assert exit_.value.code == 2


@pytest.mark.parametrize(("statement", "status"), [("FINE", 0), ("BAD", 1)])
def test_exit_status(
    stage: Any,
    statement: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = stage.case(f"- sql: {statement}")
    case.path.write_text(
        "id: one\ntitle: t\ncovers: [x.y]\ndialect: tdengine\nprecision: ms\noracle: o\n"
        f"steps:\n  - sql: {statement}\n"
    )

    def on_the_fake_gateway(cases: Any, known: Any, jobs: int) -> Any:
        outcomes = stage.play_all(cases, {"BAD": stage.refusal("no")}, jobs, known)
        for one in outcomes:
            command.show(one)
        return outcomes

    monkeypatch.setattr(command, "play", on_the_fake_gateway)
    assert command.main([str(case.path)]) == status
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("PASS one t " if status == 0 else "FAIL one t ")
    assert printed[-1] == ("1 passed, 0 failed" if status == 0 else "0 passed, 1 failed")
