"""IoTDB's REST v2 on a gateway with a log in memory: shapes, codes, and what comes of it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from tests.unit.gateway.conftest import Rig

from api_gateway.service import gateway_app
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.wire import operations

TOPIC = "wal.root-2ep.devices"
OK = {"code": 200, "message": "SUCCESS_STATUS"}


class Door:
    """A client of the door, as root with IoTDB's own password unless said otherwise."""

    def __init__(self, rig: Rig) -> None:
        self._client = TestClient(gateway_app(rig.gateway))
        self.auth: tuple[str, str] | None = ("root", "root")

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        found = self._client.post(f"/rest/v2/{path}", json=body, auth=self.auth)
        return found.status_code, found.json()

    def do(self, sql: str) -> Any:
        """The body of /nonQuery; HTTP is 200."""
        http, body = self.post("nonQuery", sql=sql)
        assert http == 200
        return body

    def ask(self, sql: str, **more: Any) -> Any:
        http, body = self.post("query", sql=sql, **more)
        assert http == 200
        return body

    def get(self, path: str) -> Any:
        return self._client.get(path).json()


@pytest.fixture
def door(rig: Rig) -> Iterator[Door]:
    yield Door(rig)


def written(rig: Rig) -> list[tuple[str, Any]]:
    """(device, rows) of each message with rows."""
    found = []
    for key, value in rig.values(TOPIC):
        if value[:1] in (b"{", b"["):  # the others are operations
            found.append((key.decode(), json.loads(value)))
    return found


# -- the door ------------------------------------------------------------------------------------------------


def test_ping_needs_no_login(door: Door) -> None:
    assert door.get("/ping") == OK


def test_a_login_is_missing_or_wrong(door: Door) -> None:
    door.auth = None
    assert door.post("query", sql="SHOW DATABASES")[0] == 401
    assert door.post("query", sql="SHOW DATABASES")[1]["code"] == 603
    door.auth = ("root", "wrong")
    http, body = door.post("nonQuery", sql="CREATE DATABASE root.p")
    assert (http, body["code"]) == (401, 600)


def test_iotdb_s_first_password_goes_with_millrace_s(rig: Rig, door: Door) -> None:
    assert door.do("CREATE DATABASE root.p") == OK
    rig("ALTER USER root PASS 'Another_1'")
    assert door.post("query", sql="SHOW DATABASES")[0] == 401
    door.auth = ("root", "Another_1")
    assert door.post("query", sql="SHOW DATABASES")[0] == 200


def test_each_statement_has_its_door(door: Door) -> None:
    assert door.ask("CREATE DATABASE root.p")["code"] == 300
    assert door.do("SHOW DATABASES")["code"] == 300
    assert door.ask("SELECT v INTO root.p.e(v) FROM root.p.d")["code"] == 407
    assert door.ask("SELECT v FRM root.p")["code"] == 700
    assert "line 1, column 10" in door.ask("SELECT v FRM root.p")["message"]


def test_a_body_that_is_none(door: Door) -> None:
    assert door.post("query")[1]["code"] == 303
    assert door.post("query", sql=5)[1]["code"] == 303
    assert door.ask("SHOW DATABASES", row_limit=0)["code"] == 303


# -- schema --------------------------------------------------------------------------------------------------


def test_databases_and_series(rig: Rig, door: Door) -> None:
    assert door.do("CREATE DATABASE root.p") == OK
    assert door.do("CREATE DATABASE root.p")["code"] == 501
    assert door.do("CREATE DATABASE root.p.d")["code"] == 501
    assert door.do("CREATE TIMESERIES root.p.d.v WITH DATATYPE=INT32") == OK
    assert door.do("CREATE TIMESERIES root.p.d.v WITH DATATYPE=INT32")["code"] == 503
    assert door.do("CREATE ALIGNED TIMESERIES root.p.gps(lat DOUBLE, v TEXT)") == OK
    assert door.ask("SHOW DATABASES") == {
        "expressions": None, "column_names": ["Database"], "timestamps": None, "values": [["root.p"]],
    }  # fmt: skip
    assert door.ask("SHOW DEVICES root.p.*")["values"] == [["root.p.d", "root.p.gps"], ["false", "true"]]
    series = door.ask("SHOW TIMESERIES root.**")
    assert series["column_names"][:4] == ["Timeseries", "Alias", "Database", "DataType"]
    assert series["values"][0] == ["root.p.d.v", "root.p.gps.lat", "root.p.gps.v"]
    assert series["values"][3] == ["INT32", "DOUBLE", "TEXT"]
    assert door.ask("SHOW TIMESERIES LIMIT 1 OFFSET 1")["values"][0] == ["root.p.gps.lat"]
    assert door.ask("COUNT TIMESERIES root.p.gps.*")["values"] == [[2]]
    assert door.ask("COUNT DEVICES")["column_names"] == ["count(devices)"]
    assert rig.gateway.context.catalog.children["root.p", "root.p.d"].tags == ("root.p.d",)


def test_what_is_there_is_there_after_a_restart(rig: Rig, door: Door) -> None:
    door.do("CREATE TIMESERIES root.p.d.v INT32")
    before = dict(rig.gateway.context.catalog.devices)
    rig.restart()
    assert rig.gateway.context.catalog.devices == before
    assert Door(rig).ask("COUNT TIMESERIES root.p.**")["values"] == [[1]]


def test_a_database_goes_with_its_devices_and_comes_back_without(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    assert door.do("DELETE DATABASE root.p") == OK
    assert door.do("DELETE DATABASE root.p")["code"] == 500
    assert not rig.gateway.context.catalog.devices
    door.do("CREATE DATABASE root.p")
    assert door.ask("COUNT DEVICES")["values"] == [[0]]
    rig("DROP DATABASE `root.p`")
    door.do("INSERT INTO root.p.d(time, w) VALUES (1, 'x')")
    assert door.ask("SHOW TIMESERIES")["values"][0] == ["root.p.d.w"]


def test_tables_that_the_other_dialect_drops(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rig("DROP TABLE `root.p`.`root.p.d`")
    assert door.ask("COUNT DEVICES")["values"] == [[0]]
    assert door.do("INSERT INTO root.p.d(time, v) VALUES (1, true)") == OK
    assert door.ask("SHOW TIMESERIES")["values"][3] == ["BOOLEAN"]


# -- rows ----------------------------------------------------------------------------------------------------


def test_an_insert_makes_its_schema(rig: Rig, door: Door) -> None:
    text = "INSERT INTO root.p.d(time, v, t, b) VALUES (1, 2, 'x', true), (2, null, 'y', null)"
    assert door.do(text) == OK
    assert written(rig) == [
        ("root.p.d", {"time": 1, "v": 2.0, "t": "x", "b": True}), ("root.p.d", {"time": 2, "t": "y"}),
    ]  # fmt: skip
    assert door.ask("SHOW TIMESERIES")["values"][3] == ["BOOLEAN", "TEXT", "DOUBLE"]


def test_further_measurements_are_further_columns(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    door.do("INSERT INTO root.p.e(time, v, w) VALUES (1, 'text', 3)")
    table = rig.gateway.context.catalog.tables["root.p", "devices"]
    assert [column.name for column in table.columns] == ["time", "v", "v:TEXT", "w"]
    assert written(rig)[-1] == ("root.p.e", {"time": 1, "v:TEXT": "text", "w": 3.0})


def test_what_does_not_fit_fails_its_column_alone(rig: Rig, door: Door) -> None:
    door.do("CREATE TIMESERIES root.p.d.v INT32")
    body = door.do("INSERT INTO root.p.d(time, v, w) VALUES (1, 'x', 2)")
    assert body["code"] == 507
    assert "root.p.d.v: 'x' is no INT32" in body["message"]
    assert written(rig) == [("root.p.d", {"time": 1, "w": 2.0})]


def test_null_alone_is_nothing(rig: Rig, door: Door) -> None:
    assert door.do("INSERT INTO root.p.d(time, v) VALUES (1, null)") == OK
    assert not rig.gateway.context.catalog.devices
    door.do("CREATE TIMESERIES root.p.d.v INT32")
    assert door.do("INSERT INTO root.p.d(time, v) VALUES (1, null)") == OK
    assert written(rig) == []


def test_a_tablet(rig: Rig, door: Door) -> None:
    http, body = door.post(
        "insertTablet", timestamps=[1, 2, 2], measurements=["v", "s"], data_types=["INT32", "TEXT"],
        values=[[1, None, 3], ["a", "b", None]], is_aligned=True, device="root.p.d",
    )  # fmt: skip
    assert (http, body) == (200, OK)
    assert [rows for _, rows in written(rig)] == [
        [{"time": 1, "v": 1, "s": "a"}, {"time": 2, "v": 3, "s": "b"}]
    ]
    assert door.ask("SHOW DEVICES")["values"] == [["root.p.d"], ["true"]]


def test_records(rig: Rig, door: Door) -> None:
    http, body = door.post(
        "insertRecords", timestamps=[1, 2], measurements_list=[["v"], ["v", "w"]],
        data_types_list=[["INT64"], ["INT64", "BOOLEAN"]], values_list=[[1], [2, False]],
        devices=["root.p.d", "root.p.e"], is_aligned=False,
    )  # fmt: skip
    assert (http, body) == (200, OK)
    assert written(rig) == [("root.p.d", {"time": 1, "v": 1}), ("root.p.e", {"time": 2, "v": 2, "w": False})]


def test_many_devices_are_made_with_few_messages(
    rig: Rig, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"root.p.line{number % 3}.d{number}" for number in range(200)]
    appends: list[int] = []
    append = rig.log.append
    monkeypatch.setattr(rig.log, "append", lambda some: appends.append(len(some)) or append(some))
    text = [number % 2 == 0 for number in range(200)]
    found = door.post(
        "insertRecords", timestamps=[1] * 201, devices=[*names, names[0]], is_aligned=False,
        measurements_list=[["v", "w"] if one else ["v"] for one in text] + [["x"]],
        data_types_list=[["TEXT", "DOUBLE"] if one else ["INT64"] for one in text] + [["INT32"]],
        values_list=[["a", 1.5] if one else [7] for one in text] + [[3]],
    )  # fmt: skip
    assert found == (200, OK)
    assert len(appends) < 20, "that does not grow with the devices"
    assert door.ask("COUNT DEVICES")["values"] == [[200]]
    listed = door.ask("SHOW TIMESERIES root.p.line0.d0.*")["values"]
    assert list(zip(listed[0], listed[3], strict=True)) == [
        ("root.p.line0.d0.v", "TEXT"), ("root.p.line0.d0.w", "DOUBLE"), ("root.p.line0.d0.x", "INT32"),
    ]  # fmt: skip
    stored = dict(written(rig)[:200])
    assert [len(stored), len(written(rig))] == [200, 201]
    rig.restart()
    assert len(Schema(rig.gateway.context.catalog).devices()) == 200


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"values": [[1]]}, 303), ({"data_types": ["INT"]}, 303), ({"data_types": ["BLOB"]}, 300),
        ({"device": "plant.d"}, 509), ({"device": "root.*"}, 509), ({"measurements": ["time"]}, 303),
        ({"timestamps": ["x"]}, 303),
    ],
)  # fmt: skip
def test_a_tablet_that_is_refused(rig: Rig, door: Door, change: dict[str, Any], code: int) -> None:
    body = {
        "timestamps": [1, 2], "measurements": ["v"], "data_types": ["INT32"], "values": [[1, 2]],
        "is_aligned": False, "device": "root.p.d",
    }  # fmt: skip
    assert door.post("insertTablet", **(body | change))[1]["code"] == code
    assert "root.p" not in rig.gateway.context.catalog.databases


def test_deleting_all_series_of_a_device_and_some(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v, w) VALUES (1, 2, 3)")
    assert door.do("DELETE FROM root.p.d.* WHERE time > 0 AND time <= 9") == OK
    assert operations.decode_operation(rig.values(TOPIC)[-1][1]) == operations.Delete(1, 9)
    rig.calc.answers(("time", "TIMESTAMP", pa.array([1], pa.int64())))
    assert door.do("DELETE FROM root.p.d.w") == OK
    assert written(rig)[-1] == ("root.p.d", {"time": 1, "w": None})
    assert door.do("DELETE FROM root.p.d.w WHERE w > 1")["code"] == 701
    assert door.do("DELETE TIMESERIES root.p.d.w") == OK
    assert door.ask("SHOW TIMESERIES")["values"][0] == ["root.p.d.v"]
    assert door.do("DELETE TIMESERIES root.p.d.v") == OK
    assert ("root.p", "root.p.d") not in rig.gateway.context.catalog.children
    assert door.do("DELETE TIMESERIES root.p.d.v")["code"] == 508


# -- queries -------------------------------------------------------------------------------------------------


def rows_of(rig: Rig, *rows: tuple[str, int, float | None]) -> None:
    devices, times, values = zip(*rows, strict=True)
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(devices)), ("time", "TIMESTAMP", pa.array(times, pa.int64())),
        ("v", "DOUBLE", pa.array(values, pa.float64())),
    )  # fmt: skip


def test_rows_by_column(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    door.do("INSERT INTO root.p.e(time, v) VALUES (1, 2)")
    rows_of(rig, ("root.p.d", 1, 2.5), ("root.p.e", 1, 3.5), ("root.p.e", 7, 4.5))
    assert door.ask("SELECT v FROM root.p.*") == {
        "expressions": ["root.p.d.v", "root.p.e.v"], "column_names": None, "timestamps": [1, 7],
        "values": [[2.5, None], [3.5, 4.5]],
    }  # fmt: skip
    path, asked = rig.calc.asked[-1]
    assert (path, asked["user"], asked["db"]) == ("/query", "root", "root.p")
    assert door.ask("SELECT v FROM root.p.* ALIGN BY DEVICE") == {
        "expressions": ["Device", "v"], "column_names": None, "timestamps": [1, 1, 7],
        "values": [["root.p.d", "root.p.e", "root.p.e"], [2.5, 3.5, 4.5]],
    }  # fmt: skip
    assert door.ask("SELECT v FROM root.p.*", row_limit=1)["code"] == 411


def test_no_series_is_no_error(door: Door) -> None:
    assert door.ask("SELECT v FROM root.p.*") == {
        "expressions": [], "column_names": None, "timestamps": [], "values": [],
    }  # fmt: skip


def test_a_user_sees_and_does_what_is_granted(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rig("CREATE USER eve PASS 'Secret_123'")
    door.auth = ("eve", "Secret_123")
    assert door.ask("SHOW TIMESERIES")["values"][0] == []
    assert door.ask("SELECT v FROM root.p.d")["code"] == 803
    assert door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")["code"] == 803
    assert door.do("INSERT INTO root.p.d(time, x) VALUES (1, 2)")["code"] == 803
    assert door.do("INSERT INTO root.q.d(time, v) VALUES (1, 2)")["code"] == 803
    assert door.do("DELETE FROM root.p.d.v")["code"] == 803
    assert door.do("CREATE DATABASE root.z")["code"] == 803
    rig("GRANT ALL ON `root.p`.* TO eve")
    assert door.do("INSERT INTO root.p.d(time, x) VALUES (1, 2)") == OK


# -- what is not there yet -----------------------------------------------------------------------------------


def test_triggers_are_refused_whole(rig: Rig, door: Door) -> None:
    door.do("CREATE DATABASE root.p")
    trigger = "CREATE STATELESS TRIGGER t AFTER INSERT ON root.p.** AS 'm:C'"
    before = rig.catalog_records()
    for text, code in ((trigger, 1303), ("DROP TRIGGER t", 1301)):
        assert door.do(text)["code"] == code
    assert door.do(f"{trigger} USING URI 'http://x/y.py'")["code"] == 1300
    assert rig.catalog_records() == before
    assert door.ask("SHOW TRIGGERS")["values"] == [[]] * 7


def test_the_sql_endpoint_speaks_it_too(rig: Rig) -> None:
    client = TestClient(gateway_app(rig.gateway))

    def run(sql: str, dialect: str = "iotdb") -> Any:
        found = client.post(f"/rest/sql?dialect={dialect}", content=sql, auth=("root", "taosdata"))
        return found.json()

    assert run("CREATE DATABASE root.p")["code"] == 0
    assert run("INSERT INTO root.p.d(time, v) VALUES (1, 2)")["code"] == 0
    rows_of(rig, ("root.p.d", 1, 2.0))
    found = run("SELECT v FROM root.p.d")
    assert [name for name, *_ in found["column_meta"]] == ["Time", "root.p.d.v"]
    assert found["data"] == [["1970-01-01T00:00:00.001Z", 2.0]]
    assert run("SELECT v FRM root.p.d")["code"] == 0x2600
    assert run("SHOW DATABASES")["data"] == [["root.p"]]
    assert "dialect" in run("SHOW DATABASES", "cobol")["desc"]


# -- SELECT … INTO -------------------------------------------------------------------------------------------


def sql(rig: Rig, text: str) -> Any:
    client = TestClient(gateway_app(rig.gateway))
    return client.post("/rest/sql?dialect=iotdb", content=text, auth=("root", "taosdata")).json()


def test_select_into_writes_rows_and_says_how_many(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    door.do("INSERT INTO root.p.e(time, v) VALUES (1, 2)")
    rows_of(rig, ("root.p.d", 1, 2.5), ("root.p.e", 1, 3.5), ("root.p.e", 7, 4.5))
    told = sql(rig, "SELECT v INTO root.p.f(a, b) FROM root.p.*")
    assert [name for name, *_ in told["column_meta"]] == ["source column", "target timeseries", "written"]
    assert told["data"] == [["root.p.d.v", "root.p.f.a", 1], ["root.p.e.v", "root.p.f.b", 2]]
    copied = [row for name, row in written(rig) if name == "root.p.f"]
    assert copied == [{"time": 1, "a": 2.5, "b": 3.5}, {"time": 7, "b": 4.5}]
    told = sql(rig, "SELECT v INTO root.copy.::(::) FROM root.p.d, root.p.e ALIGN BY DEVICE")
    assert told["data"] == [
        ["root.p.d", "v", "root.copy.d.v", 1], ["root.p.e", "v", "root.copy.e.v", 2],
    ]  # fmt: skip
    assert door.ask("SHOW TIMESERIES root.copy.**")["values"][3] == ["DOUBLE", "DOUBLE"]
    assert door.do("SELECT v INTO root.p.f(a, b) FROM root.p.d, root.p.e") == OK


def test_select_into_writes_nothing_where_something_does_not_fit(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    door.do("CREATE TIMESERIES root.p.f.b WITH DATATYPE=INT32")
    before = rig.catalog_records(), rig.wal()
    refused = door.do("SELECT v, v INTO root.p.g(a), root.p.f(b) FROM root.p.d")
    assert (refused["code"], "root.p.f.b is INT32" in refused["message"]) == (507, True)
    assert door.do("SELECT v INTO root.p.f(a, c) FROM root.p.d")["code"] == 701
    assert (rig.catalog_records(), rig.wal()) == before


def test_select_into_needs_the_privilege_to_write(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rig("CREATE USER eve PASS 'Secret_123'")
    rig("GRANT READ ON `root.p`.* TO eve")
    rows_of(rig, ("root.p.d", 1, 2.5))
    door.auth = ("eve", "Secret_123")
    assert door.do("SELECT v INTO root.p.d(w) FROM root.p.d")["code"] == 803
    assert door.do("SELECT v INTO root.q.d(w) FROM root.p.d")["code"] == 803
    rig("GRANT WRITE ON `root.p`.* TO eve")
    assert door.do("SELECT v INTO root.p.d(w) FROM root.p.d") == OK
