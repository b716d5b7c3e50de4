"""Continuous queries on a gateway with a log in memory: statements, runs step by step, failures, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from tests.unit.gateway.apps import app_of
from tests.unit.gateway.conftest import Rig

from api_gateway.iotdb.cq import CqRunner
from api_gateway.iotdb.reply import Listing
from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import status
from millrace_core.wire.topics import STATUS

OK = {"code": 200, "message": "SUCCESS_STATUS"}
TOPIC = "wal.root-2ep.devices"
DAY = 86_400_000
LATE = 7_258_118_400_000
"""2200-01-01: no run begins by itself before a test sets the clock."""
COUNT = "SELECT count(v) INTO root.p.n(c) FROM root.p.d GROUP BY(1d) END"
CREATE = f"CREATE CQ q RESAMPLE EVERY 1d BOUNDARY {LATE} BEGIN {COUNT}"


class Desk:
    """The door, and a runner whose clock stands still."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.now = rig, LATE
        self.auth = ("root", "root")
        self._client, self._of = TestClient(app_of(rig.gateway)), rig.gateway

    def do(self, sql: str, path: str = "nonQuery") -> Any:
        if self._of is not self.rig.gateway:  # it was started again
            self._client, self._of = TestClient(app_of(self.rig.gateway)), self.rig.gateway
        return self._client.post(f"/rest/v2/{path}", json={"sql": sql}, auth=self.auth).json()

    def ask(self, sql: str) -> Any:
        return self.do(sql, "query")

    def step(self, after: int = 0) -> None:
        """Milliseconds pass, then the runner takes a step."""
        self.now += after
        self.runner().step()

    def runner(self) -> CqRunner:
        gateway = self.rig.gateway
        runner = CqRunner(gateway.context, gateway.iotdb.run_continuous, 9, lambda: self.now * 1_000_000)
        runner.stopping.set()  # where nothing is due it must not wait
        return runner

    def counts(self, *groups: tuple[int, int]) -> None:
        """What calc-svc answers: (start, count)."""
        starts, counts = zip(*groups, strict=True) if groups else ((), ())
        self.rig.calc.answers(
            ("tbname", "VARCHAR(192)", pa.array(["root.p.d"] * len(groups), pa.string())),
            ("_wstart", "TIMESTAMP", pa.array(starts, pa.int64())),
            ("count(v)", "BIGINT", pa.array(counts, pa.int64())),
        )

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(v) for k, v in self.rig.values(TOPIC) if k == b"root.p.n" and v[:1] == b"{"]

    def told(self) -> list[status.QueryRuns]:
        found = [status.read(k, v) for k, v in self.rig.values(STATUS.name) if k.startswith(b"runs/") and v]
        return [one for one in found if isinstance(one, status.QueryRuns)]


@pytest.fixture
def desk(rig: Rig) -> Iterator[Desk]:
    made = Desk(rig)
    made.do("CREATE TIMESERIES root.p.d.v WITH DATATYPE=INT32")
    yield made


# -- statements ----------------------------------------------------------------------------------------------


def test_create_show_and_drop(desk: Desk) -> None:
    text = CREATE.replace("CQ q", "CONTINUOUS QUERY b")
    assert desk.do(f"  {text};") == OK
    assert desk.do(CREATE.replace("CQ q", "CQ a")) == OK
    for listing in ("SHOW CQS", "SHOW CONTINUOUS QUERIES"):
        assert desk.ask(listing) == {
            "expressions": None, "column_names": ["cq_id", "query", "state"], "timestamps": None,
            "values": [["a", "b"], [CREATE.replace("CQ q", "CQ a"), text], ["active", "active"]],
        }  # fmt: skip
    assert desk.do(text)["code"] == 1402
    assert desk.do("DROP CQ b") == OK
    assert desk.do("DROP CONTINUOUS QUERY b")["code"] == 1400
    assert desk.ask("SHOW CQS")["values"][0] == ["a"]
    assert desk.do(text) == OK


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (f"RESAMPLE EVERY 999ms BEGIN {COUNT}".replace("(1d)", "(500ms)"), 701, "at least 1000 ms"),
        (f"BEGIN {COUNT}".replace("(1d)", "(999ms)"), 701, "at least 1000 ms"),
        (f"BEGIN {COUNT}".replace("n(c)", "n(c, d)"), 701, "2 targets are named for 1 columns"),
        (f"BEGIN {COUNT}".replace("INTO root.p.n(c)", ""), 701, "needs INTO"),
        (f"BEGIN {COUNT}".replace("(1d)", "([0, 10), 1d)"), 701, "cannot have a time range"),
        (f"BEGIN {COUNT}".replace("GROUP", "WHERE time > 0 GROUP"), 701, "cannot have a condition on time"),
        (f"BEGIN {COUNT}".replace("GROUP BY(1d)", ""), 701, "RESAMPLE EVERY"),
        (f"RESAMPLE RANGE 1h BEGIN {COUNT}", 701, "longer than"),
        (f"RESAMPLE RANGE 1d, 1d BEGIN {COUNT}", 701, "must start before"),
        (f"TIMEOUT POLICY LATER BEGIN {COUNT}", 700, "BLOCKED or DISCARD"),
        (f"BEGIN {COUNT}".replace(" END", ""), 700, "END"),
        (f"BEGIN {COUNT}".replace("count(v)", "sum(v), v"), 701, "together"),
        (f"BEGIN {COUNT}".replace("count(v)", "count(v, v)"), 701, "one argument"),
        (f"RESAMPLE BOUNDARY 2026-13-01 BEGIN {COUNT}", 701, "2026-13-01"),
    ],
)
def test_what_create_refuses(desk: Desk, sql: str, code: int, words: str) -> None:
    before = desk.rig.catalog_records()
    refused = desk.do(f"CREATE CQ q {sql}")
    assert (refused["code"], words in refused["message"]) == (code, True), refused
    assert desk.rig.catalog_records() == before


def test_who_may(desk: Desk) -> None:
    desk.rig("CREATE USER eve PASS 'Secret_123'")
    root, desk.auth = desk.auth, ("eve", "Secret_123")
    assert desk.do(CREATE)["code"] == 803
    desk.rig("GRANT READ ON `root.p`.* TO eve")
    assert desk.do(CREATE)["code"] == 803
    desk.rig("GRANT WRITE ON `root.p`.* TO eve")
    assert desk.do(CREATE.replace("root.p.n", "root.other.n"))["code"] == 803
    assert desk.do(CREATE) == OK
    desk.auth = root
    assert desk.do(CREATE.replace("CQ q", "CQ r")) == OK
    desk.auth = ("eve", "Secret_123")
    assert desk.ask("SHOW CQS")["values"][0] == ["q"]
    assert desk.do("DROP CQ r")["code"] == 1400, "others' are not there for eve"
    assert desk.do("DROP CQ q") == OK


def test_a_run_is_its_makers(desk: Desk) -> None:
    desk.rig("CREATE USER eve PASS 'Secret_123'")
    desk.rig("GRANT ALL ON `root.p`.* TO eve")
    desk.auth = ("eve", "Secret_123")
    assert desk.do(CREATE) == OK
    desk.rig("REVOKE ALL ON `root.p`.* FROM eve")
    desk.step()
    assert desk.written() == []
    assert "Insufficient privilege" in desk.told()[-1].message


# -- runs ----------------------------------------------------------------------------------------------------


def test_a_run_reads_its_range_and_writes(desk: Desk) -> None:
    desk.do(CREATE)
    desk.step(-1)
    assert desk.told() == []  # not yet
    desk.counts((LATE - DAY, 3))
    desk.step(1)
    _, asked = desk.rig.calc.asked[-1]
    assert f"`time` >= {LATE - DAY} AND `time` < {LATE}" in asked["sql"]
    assert desk.written() == [{"time": LATE - DAY, "c": 3}]
    (told,) = desk.told()
    assert (told.done, told.succeeded, told.failed, told.rows, told.message) == (LATE, 1, 0, 1, "")
    desk.step(DAY - 1)
    assert len(desk.told()) == 1
    desk.counts((LATE, 5))
    desk.step(1)
    assert desk.written()[1:] == [{"time": LATE, "c": 5}]
    assert desk.told()[-1].succeeded == 2


def test_a_count_of_nothing_is_0_and_written(desk: Desk) -> None:
    desk.do(CREATE)
    desk.counts()
    desk.step()
    assert desk.written() == [{"time": LATE - DAY, "c": 0}]


def test_a_run_that_fails_is_tried_again_for_its_own_range(desk: Desk) -> None:
    desk.do(CREATE)
    desk.rig.calc.away = True
    desk.step(60_000)
    assert "calc-svc" in desk.told()[-1].message
    assert (desk.told()[-1].done, desk.told()[-1].failed) == (None, 1)
    desk.rig.calc.away = False
    desk.counts((LATE - DAY, 3))
    desk.step(19_999)
    assert len(desk.told()) == 1
    desk.step(1)
    assert desk.written() == [{"time": LATE - DAY, "c": 3}]
    told = desk.told()[-1]
    assert (told.done, told.failed, told.succeeded, told.message) == (LATE, 1, 1, "")


def test_a_target_that_is_too_narrow_fails_the_run(desk: Desk) -> None:
    desk.do("CREATE TIMESERIES root.p.n.c WITH DATATYPE=INT32")
    assert desk.do(CREATE) == OK
    desk.counts((LATE - DAY, 3))
    desk.step()
    assert desk.written() == []
    assert "root.p.n.c is INT32: values of type INT64 do not fit" in desk.told()[-1].message
    desk.do("DELETE TIMESERIES root.p.n.c")
    desk.step(20_000)
    assert desk.told()[-1].done == LATE
    assert [list(row.values()) for row in desk.written()] == [[LATE - DAY, 3]]


def test_what_is_dropped_while_it_runs_writes_nothing(desk: Desk) -> None:
    desk.do(CREATE)
    desk.counts((LATE - DAY, 3))

    def drop() -> None:
        desk.rig.calc.before = lambda: None
        desk.do("DROP CQ q")
        desk.do(CREATE)

    desk.rig.calc.before = drop
    desk.step()
    assert (desk.written(), desk.told()) == ([], [])
    desk.step()  # that of the new one
    assert len(desk.written()) == 1


def test_an_unexpected_failure_harms_no_other_query(desk: Desk) -> None:
    desk.do(CREATE)
    desk.do(CREATE.replace("CQ q", "CQ r").replace("n(c)", "n(d)"))
    desk.rig.calc.error = MillraceError(ErrorCode.INTERNAL, "a bug")
    desk.step()
    desk.rig.calc.error = None
    desk.counts((LATE - DAY, 3))
    desk.step()
    assert [(one.failed, one.succeeded) for one in desk.told()] == [(1, 0), (0, 1)]
    assert desk.written() == [{"time": LATE - DAY, "d": 3}]


def test_what_is_due_and_does_not_run_can_be_seen(desk: Desk) -> None:
    desk.do(CREATE)
    assert desk.runner().look() == (0, "")
    desk.now += 1
    assert desk.runner().look() == (0, "a continuous query has been due since 2200-01-01T00:00:00Z")
    desk.counts((LATE - DAY, 1))
    desk.step()
    assert desk.runner().look() == (1, "")


# -- what can be seen of them --------------------------------------------------------------------------------


def diagnosis(desk: Desk) -> dict[str, tuple[Any, ...]]:
    session = Session("root", None, "UTC", desk.now * 1_000_000)
    found = desk.rig.gateway.iotdb.execute(session, "DIAGNOSE CQ q")
    assert isinstance(found, Listing)
    return {f"{row[0]} {row[1]}": row[2:] for row in found.rows}


def test_diagnose_says_what_a_query_does_and_what_keeps_it(desk: Desk) -> None:
    desk.do(CREATE.replace("BEGIN", "TIMEOUT POLICY DISCARD BEGIN"))
    found = diagnosis(desk)
    assert found["query verdict"][-1] == "It has not run yet: the first instant is '2200-01-01 00:00:00.000'."
    assert (found["query source_series"][0], found["query target_series"][0]) == (1, 1)
    assert found["run next"][1:3] == (LATE - DAY, LATE)
    desk.rig.calc.away = True
    desk.step()
    found = diagnosis(desk)
    assert found["query status"][-1].startswith("Failed: ")
    assert "retried at '2200-01-01 00:00:20.000'" in found["run next"][-1]
    desk.rig.calc.away = False
    desk.now += 5 * DAY
    found = diagnosis(desk)
    assert found["runs late"] == (
        6, LATE - DAY, LATE + 5 * DAY,
        "due but not run yet, '2200-01-01 00:00:00.000' to '2200-01-06 00:00:00.000'; "
        "those in the past when a run ends are skipped",
    )  # fmt: skip
    desk.counts((LATE - DAY, 3))
    desk.step(1)
    found = diagnosis(desk)
    assert found["query verdict"][-1] == "It is running, and has written 1 rows in 1 runs."
    assert [found[f"runs {name}"][0] for name in ("done", "failed", "skipped")] == [1, 1, 5]
    assert found["run last"][1:3] == (LATE - DAY, LATE)
    assert found["run next"][1:3] == (LATE + 5 * DAY, LATE + 6 * DAY)
    assert (desk.told()[-1].next, desk.told()[-1].skipped) == (LATE + 6 * DAY, 5)


def test_diagnose_foresees_a_run_that_cannot_be(desk: Desk) -> None:
    desk.do(CREATE)
    desk.do("CREATE TIMESERIES root.p.n.c WITH DATATYPE=INT32")
    assert diagnosis(desk)["query verdict"][-1] == (
        "The next run will fail: root.p.n.c is INT32: values of type INT64 do not fit"
    )
    desk.do("DELETE TIMESERIES root.p.n.c")
    desk.do("DELETE TIMESERIES root.p.d.v")
    assert "No series matches FROM and SELECT" in diagnosis(desk)["query verdict"][-1]
    assert desk.ask("DIAGNOSE CQ nowhere")["code"] == 1400
    desk.rig("CREATE USER eve PASS 'Secret_123'")
    desk.auth = ("eve", "Secret_123")
    assert desk.ask("DIAGNOSE CONTINUOUS QUERY q")["code"] == 1400
    assert desk.ask("VERIFY CQ q FROM 0 TO 1")["code"] == 1400


@pytest.mark.parametrize("name", ["c", "1d", "true"])
def test_verify_finds_what_runs_would_give_otherwise(desk: Desk, name: str) -> None:
    desk.do(CREATE.replace("n(c)", f"n({name})"))
    for number in range(3):
        desk.counts((LATE + (number - 1) * DAY, number + 1))
        desk.step(DAY if number else 0)
    stored = [(LATE - DAY, 1), (LATE, 7)]

    def answers() -> None:
        """Of a SELECT of the target what is stored, of a run a count of 2."""
        asked = desk.rig.calc.asked[-1][1]["sql"]
        if "count(" in asked:
            start = next(LATE + n * DAY for n in (-1, 0, 1) if f">= {LATE + n * DAY}" in asked)
            desk.counts((start, 1 if start < LATE else 2))
            return
        desk.rig.calc.answers(
            ("tbname", "VARCHAR(192)", pa.array(["root.p.n"] * len(stored), pa.string())),
            ("time", "TIMESTAMP", pa.array([at for at, _ in stored], pa.int64())),
            (name, "BIGINT", pa.array([value for _, value in stored], pa.int64())),
        )

    desk.rig.calc.before = answers
    found = desk.ask(f"VERIFY CQ q FROM {LATE - DAY} TO {LATE + 5 * DAY}")
    assert list(zip(*found["values"], strict=True)) == [
        ("different", f"root.p.n.{name}", LATE, "2", "7"),
        ("missing", f"root.p.n.{name}", LATE + DAY, "2", None),
    ]
    assert desk.ask(f"VERIFY CQ q FROM {LATE - DAY} TO {LATE - 1}")["values"] == [[]] * 5
    assert desk.ask(f"VERIFY CQ q FROM {LATE} TO {LATE + DAY} LIMIT 1")["values"][0] == ["different"]
    assert "must not be after" in desk.ask("VERIFY CQ q FROM 2 TO 1")["message"]


# -- restarts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["BLOCKED", "DISCARD"])
def test_what_was_missed_is_made_up_for_as_the_policy_says(desk: Desk, policy: str) -> None:
    desk.do(CREATE.replace("BEGIN", f"TIMEOUT POLICY {policy} BEGIN"))
    desk.counts((LATE - DAY, 1))
    desk.step()
    desk.rig.restart()
    desk.now = LATE + 3 * DAY + 5
    for _ in range(4):
        desk.step()
    instants = [(one.done or 0) - LATE for one in desk.told()]
    assert instants == ([0, DAY, 2 * DAY, 3 * DAY] if policy == "BLOCKED" else [0, DAY])
    desk.step(DAY)
    assert desk.told()[-1].done == LATE + 4 * DAY


def test_a_kill_between_the_rows_and_the_mark_runs_again(desk: Desk) -> None:
    desk.do(CREATE)
    desk.counts((LATE - DAY, 1))
    run = desk.rig.gateway.context.continuous.take(LATE * 1_000_000)
    assert run is not None
    desk.rig.gateway.iotdb.run_continuous(run)
    desk.rig.restart()
    desk.step()
    assert desk.written() == [{"time": LATE - DAY, "c": 1}] * 2
    assert desk.told()[-1].done == LATE


def test_before_its_first_run_a_restart_changes_nothing(desk: Desk) -> None:
    desk.do(CREATE)
    desk.rig.restart()
    assert desk.rig.gateway.context.continuous.next_at() == LATE * 1_000_000


def test_nothing_is_left_of_what_was_dropped(desk: Desk) -> None:
    desk.do(CREATE)
    desk.counts((LATE - DAY, 1))
    desk.step()
    desk.do("DROP CQ q")
    key, value = [pair for pair in desk.rig.values(STATUS.name) if pair[0].startswith(b"runs/")][-1]
    assert value is None or value == b""
    desk.rig.restart()
    assert desk.rig.gateway.context.continuous.next_at() is None
    assert desk.ask("SHOW CQS")["values"][0] == []
    assert key
