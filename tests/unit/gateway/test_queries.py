"""SHOW QUERIES, KILL QUERY, how many queries a user has, and clients that go away."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from typing import Any

import httpx
import pytest

from api_gateway.access import gone
from api_gateway.service import gateway_app
from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError

from .conftest import NOW, Rig

RUNNING = [
    {"id": "g:1f", "user": "root", "sql": "SELECT 1", "began": NOW, "took": 1500},
    {"id": "g:2", "user": "ann", "sql": "SELECT 2", "began": NOW, "took": 7},
]


@pytest.fixture
def told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """calc-svc tells of two queries; what it is told to kill."""
    found: list[dict[str, Any]] = []
    other = rig.gateway.context.calc._http._transport.handler  # type: ignore[attr-defined]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/queries":
            return httpx.Response(200, json=RUNNING)
        if request.url.path == "/kill":
            asked = json.loads(request.content)
            found.append(asked)
            known = any(one["id"] == asked["id"] and asked["user"] in (None, one["user"]) for one in RUNNING)
            error = MillraceError(ErrorCode.UNKNOWN_QUERY, "no such query")
            return httpx.Response(204) if known else httpx.Response(404, json=error.to_wire())
        result: httpx.Response = other(request)
        return result

    monkeypatch.setattr(rig.gateway.context.calc._http, "_transport", httpx.MockTransport(answer))
    rig("CREATE USER ann PASS 'secret-1'")
    return found


def as_ann(rig: Rig, sql: str) -> Any:
    return rig.gateway.executor.execute(Session("ann", None, "UTC", NOW), sql)


def test_queries_are_shown_with_tdengines_columns(rig: Rig, told: Any) -> None:
    answer = rig("SHOW QUERIES")
    names = [column.name for column in answer.columns]
    assert names[:2] == ["kill_id", "query_id"]
    first = dict(zip(names, answer.rows[0], strict=True))
    assert (first["kill_id"], first["query_id"], first["user"]) == ("g:1f", 0x1F, "root")
    assert (first["create_time"], first["exec_usec"], first["sql"]) == (NOW // 1_000_000, 1500, "SELECT 1")
    assert len(answer.rows) == 2


def test_a_user_is_shown_the_own_ones(rig: Rig, told: Any) -> None:
    assert [row[0] for row in as_ann(rig, "SHOW QUERIES").rows] == ["g:2"]


def test_a_superuser_kills_any_query(rig: Rig, told: list[dict[str, Any]]) -> None:
    assert rig("KILL QUERY 'g:2'").rows == [[0]]
    assert told == [{"id": "g:2", "by": "the user root", "user": None}]


def test_a_user_kills_the_own_ones_alone(rig: Rig, told: Any) -> None:
    as_ann(rig, "KILL QUERY 'g:2'")
    with pytest.raises(MillraceError) as caught:
        as_ann(rig, "KILL QUERY 'g:1f'")
    assert caught.value.code is ErrorCode.UNKNOWN_QUERY
    assert caught.value.position is not None


def test_a_query_says_how_long_it_may_take_and_by_what_it_can_be_killed(rig: Rig) -> None:
    rig("SELECT 1")
    rig("SELECT 1")
    asked = [body for path, body in rig.calc.asked if path == "/query"]
    assert {body["seconds"] for body in asked} == {rig.gateway.context.settings.query_seconds}
    assert len({body["id"] for body in asked}) == 2


def test_a_user_has_only_so_many_queries(rig: Rig) -> None:
    rig.restart(user_queries=2)
    rig("CREATE USER ann PASS 'secret-1'")
    inside, over = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        inside.release()
        assert over.wait(10)

    rig.calc.before = wait
    threads = [threading.Thread(target=rig, args=("SELECT 1",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert inside.acquire(timeout=10)
    rig.calc.before = lambda: None
    with pytest.raises(MillraceError, match="MILLRACE_USER_QUERIES") as caught:
        rig("SELECT 1")
    assert caught.value.code is ErrorCode.TOO_MANY
    assert as_ann(rig, "SELECT 1").rows  # others have their own
    over.set()
    for thread in threads:
        thread.join(10)
    assert rig("SELECT 1").rows


@pytest.mark.parametrize(
    ("path", "body"), [("/rest/sql", b"SELECT 1"), ("/rest/v2/query", b'{"sql": "SELECT a FROM root.d.x"}')]
)
def test_the_query_of_a_client_that_goes_away_is_killed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes
) -> None:
    """It is told again until the statement is over: the first time the query may not have begun."""
    monkeypatch.setattr(gone, "AGAIN", 0.01)
    killed, times = threading.Event(), 0
    begun = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal times
        if request.url.path == "/kill":
            times += 1
            if times == 2:
                killed.set()
            error = MillraceError(ErrorCode.UNKNOWN_QUERY, "not yet")
            return httpx.Response(204) if times > 1 else httpx.Response(404, json=error.to_wire())
        begun.set()
        assert killed.wait(10)
        return httpx.Response(409, json=MillraceError(ErrorCode.QUERY_KILLED, "killed").to_wire())

    if path != "/rest/sql":
        rig.restart(iotdb_port=1)
        rig.gateway.iotdb.execute(
            Session("root", None, "UTC", NOW), "INSERT INTO root.d.x(time, a) VALUES (1, 2)"
        )
    monkeypatch.setattr(rig.gateway.context.calc._http, "_transport", httpx.MockTransport(answer))
    app = gateway_app(rig.gateway)
    known = base64.b64encode(b"root:taosdata").decode()
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"authorization", f"Basic {known}".encode())], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 6041), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, 10)
        return {"type": "http.disconnect"}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert times >= 2
    assert b"killed" in b"".join(message.get("body", b"") for message in sent)
