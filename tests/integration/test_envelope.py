"""Whatever one user sends, there is an answer or an own error soon, and the others are answered after it.

``make envelope`` tries ten times as many statements, at random, and holds each to ten seconds.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace import processes
from millrace.settings import StackSettings
from millrace.stack import Stack
from millrace_core.errors import ErrorCode

from ..conftest import examples
from ..hostile import BIG, LITERALS, hostile
from ..openapi import ask_everything

pytestmark = pytest.mark.stack

KNOWN = {"Authorization": "Basic " + base64.b64encode(b"root:taosdata").decode()}
QUERY_SECONDS = 6
PATIENCE = float(os.environ.get("MILLRACE_ENVELOPE_SECONDS", "60"))
"""Seconds that a client waits: where tests have the machine to themselves, the answer is there within ten."""
RECOVERY = 180.0
"""Seconds until the others must be served again."""
ROWS = 2_000
LATER = {code.value.number for code in (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.QUERY_TIMEOUT)}
AWAY = ErrorCode.UNAVAILABLE.value.number
INTERNAL = ErrorCode.INTERNAL.value.number


def as_user(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:secret-1".encode()).decode()}


class Users:
    """Those who send statements to one gateway."""

    def __init__(self, stack: Stack) -> None:
        self.url = stack.settings.url("api-gateway")
        self._http = httpx.Client(base_url=self.url, headers=KNOWN, timeout=PATIENCE, trust_env=False)
        self._numbers = count()

    def send(self, sql: str, who: dict[str, str] = KNOWN) -> dict[str, object]:
        answered = self._http.post("/rest/sql/e", content=sql.encode(), headers=who)
        assert answered.status_code < 500, answered.text[:500]
        found: dict[str, object] = answered.json()
        return found

    def newcomer(self) -> dict[str, str]:
        """Somebody who has ended no process, and so need not wait until another stands by."""
        name = f"new{next(self._numbers)}"
        for sql in (f"CREATE USER {name} PASS 'secret-1'", f"GRANT READ ON e.* TO {name}"):
            assert self.send(sql)["code"] == 0
        return as_user(name)

    def send_until_taken(self, sql: str, who: dict[str, str], words: str | None = None) -> dict[str, object]:
        """Again while it is to be sent later: the statement before may have ended the process for queries
        just now, and what that takes to begin is longer than a query may take here. Or until these words are
        among the answer's: beside such a start, planning takes its time, too."""
        until = time.monotonic() + RECOVERY
        while (found := self.send(sql, who))["code"] in LATER and time.monotonic() < until:
            if words is not None and words in str(found["desc"]) and found["code"] != AWAY:
                break
            time.sleep(0.1)
        return found

    def others_are_served(self) -> None:
        """Soon."""
        found = self.send_until_taken("SELECT count(*) FROM meters", as_user("other"))
        assert found.get("data") == [[ROWS]], found


@pytest.fixture(scope="module")
def stack(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One whose queries may take little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_QUERY_SECONDS", str(QUERY_SECONDS))
        patch.setenv("MILLRACE_CALC_QUERY_MEMORY", "700m")
        patch.setenv("MILLRACE_CALC_RESULT_BYTES", "20000000")
        # who ends the process for queries again and again is here to go on
        patch.setenv("MILLRACE_CALC_QUERY_PENALTY_SECONDS", "0")
        one = Stack(StackSettings.on_free_ports(tmp_path_factory.mktemp("envelope"), jars))
        try:
            one.up()
            yield one
        finally:
            one.down()


@pytest.fixture(scope="module")
def users(stack: Stack) -> Users:
    found = Users(stack)
    found.send("CREATE DATABASE e")
    for sql in (
        "CREATE STABLE meters (ts TIMESTAMP, v INT, s VARCHAR(80)) TAGS (site INT)",
        "INSERT INTO m1 USING meters TAGS (1) VALUES "
        + " ".join(f"({1_767_225_600_000 + i * 1000}, {i}, '{'a' * 60}')" for i in range(ROWS)),
        "CREATE USER other PASS 'secret-1'",
        "GRANT READ ON e.* TO other",
    ):
        assert found.send(sql)["code"] == 0
    return found


def _streams_jvm(stack: Stack) -> psutil.Process:
    """The JVM that calculates streams: a child of calc-svc itself."""
    service = processes.running(stack.place, "calc-svc")
    assert service is not None
    (found,) = (one for one in service.children() if "java" in one.name())
    return found


@pytest.fixture(scope="module", autouse=True)
def streams_are_left_alone(stack: Stack, users: Users) -> Iterator[None]:
    """None of it reaches the JVM that calculates streams."""
    jvm = _streams_jvm(stack)
    before = jvm.memory_info().rss
    yield
    assert _streams_jvm(stack).pid == jvm.pid
    assert jvm.memory_info().rss < before + 300_000_000


@pytest.mark.parametrize("name", LITERALS)
def test_what_was_found_once(users: Users, name: str) -> None:
    sql, words = LITERALS[name]
    found = users.send_until_taken(sql, users.newcomer(), words)
    assert found["code"] not in (0, INTERNAL), str(found)[:300]
    assert words in str(found["desc"])
    users.others_are_served()


@pytest.mark.parametrize("name", BIG)
def test_what_is_large_and_may_be_answered(users: Users, name: str) -> None:
    found = users.send(BIG[name])
    assert found["code"] != INTERNAL, str(found)[:300]
    users.others_are_served()


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(sql=hostile())
def test_whatever_is_sent(users: Users, sql: str) -> None:
    found = users.send(sql)
    assert found["code"] != INTERNAL, str(found)[:300]
    users.others_are_served()


def test_what_openapi_offers(stack: Stack, users: Users) -> None:
    words = st.sampled_from(["SHOW QUERIES", "SELECT 1", "SELECT v FROM e.m1", "KILL QUERY 'x'", ""])
    assert ask_everything(users.url, KNOWN, 10, words) > 15
    assert ask_everything(stack.settings.url("notify-svc"), stack.settings.token.header, 10, st.text()) >= 2
    users.others_are_served()
