"""Over HTTP: TDengine's REST protocol, the resource API, health and metrics."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

ROOT = {"Authorization": "Basic " + base64.b64encode(b"root:taosdata").decode()}
STREAM = (
    "CREATE STREAM d.s1 INTERVAL(10s) SLIDING(10s) FROM d.one INTO d.out1 "
    "AS SELECT _twstart, count(*) FROM %%trows"
)


def sql(client: TestClient, text: str, path: str = "/rest/sql", **params: str) -> dict[str, Any]:
    reply = client.post(path, content=text.encode(), headers=ROOT, params=params)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def test_a_statement_and_a_query(rig: Any, client: TestClient) -> None:
    done = {"code": 0, "column_meta": [["affected_rows", "INT", 4]], "data": [[0]], "rows": 1}
    assert sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)") == done
    assert sql(client, "INSERT INTO one VALUES (1, 1) (2, 2)", "/rest/sql/d")["data"] == [[2]]
    rig.calc.answers(
        ("ts", "TIMESTAMP", pa.array([1_767_225_601_000], pa.int64())),
        ("v", "INT", pa.array([7], pa.int32())),
        ("s", "VARCHAR(16)", pa.array(["x"])),
    )  # fmt: skip
    assert sql(client, "SELECT * FROM d.one") == {
        "code": 0, "rows": 1, "data": [["2026-01-01T00:00:01.000Z", 7, "x"]],
        "column_meta": [["ts", "TIMESTAMP", 8], ["v", "INT", 4], ["s", "VARCHAR", 16]],
    }  # fmt: skip
    shown = sql(client, "SELECT * FROM d.one", tz="Asia/Tokyo", row_with_meta="true", req_id="17")
    assert shown["data"] == [{"ts": "2026-01-01T09:00:01.000+09:00", "v": 7, "s": "x"}]
    rig.calc.answers(("ts", "TIMESTAMP", pa.array([1_000_000_001], pa.int64())), precision="ns")
    assert sql(client, "SELECT ts FROM d.one")["data"] == [["1970-01-01T00:00:01.000000001Z"]]


def test_the_time_zone_is_that_of_times_in_the_sql_too(rig: Any, client: TestClient) -> None:
    sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)")
    sql(client, "INSERT INTO d.one VALUES ('2026-01-01 09:00:01', 1)", tz="Asia/Tokyo")
    assert rig.values("wal.d.one") == [(b"one", b'{"ts":1767225601000,"v":1}')]


def test_an_sql_error_is_http_200_with_its_number_and_place(client: TestClient) -> None:
    body = sql(client, "SELEC 1")
    assert body["code"] == 0x2600
    assert "line 1, column 1" in body["desc"]


def test_a_database_in_the_path_need_not_exist_yet(rig: Any, client: TestClient) -> None:
    for text in ("CREATE DATABASE IF NOT EXISTS other", "SHOW DATABASES", "SELECT server_version()",
                 "CREATE TABLE other.t (ts TIMESTAMP, v INT)", "INSERT INTO other.t VALUES (1, 1)",
                 "SELECT * FROM other.t", "DROP DATABASE IF EXISTS test", "CREATE USER ann PASS 'Secret-1!'",
                 "DROP STREAM IF EXISTS s"):  # fmt: skip
        assert sql(client, text, "/rest/sql/test")["code"] == 0, text
    assert sql(client, "SELECT database()", "/rest/sql/test")["data"] == [[None]]
    assert sql(client, "CREATE DATABASE test", "/rest/sql/test")["code"] == 0
    assert sql(client, "SELECT database()", "/rest/sql/test")["data"] == [["test"]]
    assert sql(client, "CREATE TABLE t (ts TIMESTAMP, v INT)", "/rest/sql/test")["code"] == 0
    assert ("test", "t") in rig.gateway.context.catalog.tables


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TABLES", "SHOW STREAMS", "CREATE TABLE t (ts TIMESTAMP, v INT)", "INSERT INTO t VALUES (1, 1)",
        "DELETE FROM t", "DROP TABLE t", "DESCRIBE t", "SHOW CREATE TABLE t",
        "ALTER TABLE t ADD COLUMN w INT", "CREATE TABLE c USING t TAGS (1)",
        "INSERT INTO c USING t TAGS (1) VALUES (1, 1)",
        "DROP STREAM s", "STOP STREAM s", "START STREAM s", "USE test", "SHOW TAGS FROM t",
        STREAM.replace("d.", ""), STREAM.replace("d.one", "one"), STREAM.replace("d.out1", "out1"),
        "CREATE VTABLE v (ts TIMESTAMP, a INT FROM t.v)", "SHOW CREATE STREAM s", "DIAGNOSE STREAM s",
    ],
)  # fmt: skip
def test_a_statement_that_needs_the_database_says_that_it_does_not_exist(
    rig: Any, client: TestClient, text: str
) -> None:
    sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)")
    body = sql(client, text, "/rest/sql/test")
    assert body["code"] == 0x0388, body
    assert "test does not exist" in body["desc"]


@pytest.mark.parametrize(("body", "params"), [
    (b"", {}), (b"  ", {}), (b"\xff", {}), (b"SELECT 1", {"tz": "Mars/Olympus"}),
    (b"SELECT 1", {"req_id": "x"}), (b"SELECT 1", {"row_with_meta": "perhaps"}),
])  # fmt: skip
def test_a_request_that_is_none_is_http_400(client: TestClient, body: bytes, params: dict[str, str]) -> None:
    reply = client.post("/rest/sql", content=body, headers=ROOT, params=params)
    assert reply.status_code == 400
    assert reply.json()["code"] != 0 and reply.json()["desc"]


def test_only_who_may_comes_in(client: TestClient) -> None:
    for header in ({}, {"Authorization": "Basic " + base64.b64encode(b"root:wrong").decode()}):
        reply = client.post("/rest/sql", content=b"CREATE DATABASE x", headers=header)
        assert reply.status_code == 401
        assert reply.json()["code"] == 0x0357
        assert client.get("/api/v1/streams", headers=header).status_code == 401
    assert client.get("/rest/login/root/wrong").status_code == 401
    token = client.get("/rest/login/root/taosdata").json()
    assert token["code"] == 0
    for scheme in ("Taosd", "Bearer"):
        header = {"Authorization": f"{scheme} {token['desc']}"}
        reply = client.post("/rest/sql", content=b"SHOW DATABASES", headers=header)
        assert ["d"] in reply.json()["data"]


def test_a_stream_by_the_resource_api(rig: Any, client: TestClient) -> None:
    sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"))
    made = client.post("/api/v1/streams", json={"sql": STREAM}, headers=ROOT)
    assert made.status_code == 201
    body = made.json()
    assert body.pop("created") > 0
    assert body == {
        "name": "d.s1", "db": "d", "stream": "s1", "status": "Running", "message": "", "trigger": "Interval",
        "source": "d.one", "output": "d.out1", "sql": STREAM,
        "events": "ws://127.0.0.1:6061/api/v1/streams/d.s1/events",
    }  # fmt: skip
    clauses = {
        "name": "d.s2", "trigger": "INTERVAL(10s) SLIDING(10s)", "from": "d.one", "into": "d.out2",
        "options": ["WATERMARK(1s)", "IGNORE_DISORDER"], "columns": ["ts", "n"],
        "notify": "('ws://127.0.0.1:9/x') ON (WINDOW_CLOSE)",
        "query": "SELECT _twstart, count(*) FROM %%trows",
    }  # fmt: skip
    assert client.post("/api/v1/streams", json=clauses, headers=ROOT).status_code == 201
    spec = rig.gateway.context.catalog.streams["d", "s2"].spec
    assert spec.options.ignore_disorder and spec.notify.urls == ("ws://127.0.0.1:9/x",)
    assert [c.name for c in spec.output.columns] == ["ts", "n"]
    assert [s["name"] for s in client.get("/api/v1/streams", headers=ROOT).json()] == ["d.s1", "d.s2"]
    assert client.get("/api/v1/streams?db=e", headers=ROOT).json() == []
    assert client.post("/api/v1/streams/d.s1/stop", headers=ROOT).json()["status"] == "Stopped"
    assert client.get("/api/v1/streams/d.s1", headers=ROOT).json()["status"] == "Stopped"
    assert client.post("/api/v1/streams/d.s1/start", headers=ROOT).json()["status"] == "Running"
    assert client.delete("/api/v1/streams/d.s1", headers=ROOT).status_code == 204
    assert client.get("/api/v1/streams/d.s1", headers=ROOT).status_code == 404


def test_errors_of_the_resource_api_have_code_message_and_place(rig: Any, client: TestClient) -> None:
    def post(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        reply = client.post("/api/v1/streams", json=body, headers=ROOT)
        return reply.status_code, reply.json()

    status, body = post({"sql": STREAM})
    assert (status, body["code"], body["line"], body["column"]) == (404, "UNKNOWN_TABLE", 1, 52)
    assert "one" in body["message"]
    assert post({"sql": "DROP DATABASE d"})[0] == 400
    assert "d" in rig.gateway.context.catalog.databases
    assert post({"sql": STREAM.replace("d.s1", "s1")})[1]["code"] == "NO_DATABASE"
    assert post({"sql": STREAM, "name": "d.s1"}) == (
        422, {"code": "INVALID_VALUE", "message": "sql cannot be combined with other fields; found name"}
    )  # fmt: skip
    assert post({})[1]["message"] == "either sql, or name and trigger, must be given"
    status, body = post({"name": 5, "trigger": "PERIOD(1s)", "wrong": 1})
    assert (status, body["code"]) == (422, "INVALID_VALUE")
    assert "name: " in body["message"] and "wrong: " in body["message"]
    no_json = client.post("/api/v1/streams", content=b"{", headers=ROOT)
    assert (no_json.status_code, no_json.json()["code"]) == (422, "INVALID_VALUE")
    assert client.delete("/api/v1/streams/d.s1", headers=ROOT).json()["code"] == "UNKNOWN_STREAM"


def test_streams_are_shown_to_those_who_may_know_of_them(rig: Any, client: TestClient) -> None:
    sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"))
    sql(client, STREAM)
    sql(client, "CREATE USER ann PASS 'Secret_1'")
    ann = {"Authorization": "Basic " + base64.b64encode(b"ann:Secret_1").decode()}
    assert client.get("/api/v1/streams", headers=ann).json() == []
    refused = client.get("/api/v1/streams/d.s1", headers=ann)
    assert (refused.status_code, refused.json()["code"]) == (403, "PERMISSION")
    sql(client, "GRANT READ ON d.* TO ann")
    assert [s["name"] for s in client.get("/api/v1/streams", headers=ann).json()] == ["d.s1"]
    assert client.get("/api/v1/streams/d.s1", headers=ann).json()["sql"] == STREAM
    stopped = client.post("/api/v1/streams/d.s1/stop", headers=ann)
    assert (stopped.status_code, stopped.json()["code"]) == (403, "PERMISSION")


def test_the_api_describes_itself(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths["/api/v1/streams/{name}"]) == {"get", "delete"}
    assert {"/rest/sql", "/rest/sql/{db}", "/rest/login/{user}/{password}", "/api/v1/streams"} <= set(paths)
    for methods in (paths[path] for path in paths if path.startswith("/api/v1/streams")):
        for route in methods.values():
            refusals = {
                status: said["content"] for status, said in route["responses"].items() if status >= "400"
            }
            assert {"401", "403", "422"} <= set(refusals)
            assert {content["application/json"]["schema"]["$ref"] for content in refusals.values()} == {
                "#/components/schemas/Problem"
            }
    assert client.get("/docs").status_code == 200


def test_health_and_metrics(rig: Any, client: TestClient) -> None:
    shown = rig.gateway.token.header
    assert client.get("/healthz").json() == {"service": "api-gateway", "ready": True}
    assert set(client.get("/healthz", headers=shown).json()["detail"]) >= {"catalog", "applied"}
    assert [client.get("/metrics", headers=given).status_code for given in (ROOT, {})] == [401, 401]
    sql(client, "CREATE TABLE d.one (ts TIMESTAMP, v INT)")

    def metric(name: str) -> float:
        lines = client.get("/metrics", headers=shown).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    rows, errors = (
        metric("millrace_gateway_rows_inserted_total"),
        metric('millrace_gateway_errors_total{code="SYNTAX"}'),
    )
    sql(client, "INSERT INTO d.one VALUES (1, 1) (2, 2)")
    sql(client, "SELEC")
    assert metric("millrace_gateway_rows_inserted_total") == rows + 2
    assert metric('millrace_gateway_errors_total{code="SYNTAX"}') == errors + 1
    assert metric('millrace_gateway_requests_total{statement="Insert"}') >= 1
    rig.gateway.stop()
    assert client.get("/healthz").status_code == 503


def test_a_fault_of_ours_is_told_as_such_in_the_protocols_own_form(
    rig: Any, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(rig.gateway.context.calc, "query", broken)
    body = sql(client, "SELECT 1 FROM d.one")
    assert body["code"] == 0x0100
    assert "ZeroDivisionError" in body["desc"]
