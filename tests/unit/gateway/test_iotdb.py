"""IoTDB's REST v2 on a gateway with a log in memory: shapes, codes, and what comes of it there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from tests.unit.gateway.apps import app_of
from tests.unit.gateway.conftest import Rig
from tests.unit.gateway.iotdb_door import OK, Door, door, rows_of

from api_gateway.iotdb.execute import HANDLERS
from millrace_core.dialect.iotdb.statements import CreateDatabase, Show

__all__ = ["door"]


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
    assert door.ask("SELECT v FROM root.p.d DISABLE ALIGN")["code"] == 407
    assert door.ask("SELECT v FRM root.p")["code"] == 700
    assert "line 1, column 10" in door.ask("SELECT v FRM root.p")["message"]


def test_a_body_that_is_none(door: Door) -> None:
    assert door.post("query")[1]["code"] == 303
    assert door.post("query", sql=5)[1]["code"] == 303
    assert door.ask("SHOW DATABASES", row_limit=0)["code"] == 303


def test_what_nobody_has_thought_of_has_a_code_too(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setitem(HANDLERS, Show, breaks)
    monkeypatch.setitem(HANDLERS, CreateDatabase, breaks)
    for found in (door.ask("SHOW DATABASES"), door.do("CREATE DATABASE root.p")):
        assert (found["code"], "KeyError" in found["message"]) == (305, True)


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


def test_a_series_is_not_called_like_the_time(rig: Rig, door: Door) -> None:
    """No INSERT could write it."""
    for sql in (
        "CREATE TIMESERIES root.p.d.time INT64",
        "CREATE ALIGNED TIMESERIES root.p.d(v INT64, Timestamp INT64)",
    ):
        found = door.do(sql)
        assert (found["code"], "reserved for the time of the rows" in found["message"]) == (509, True), found
    assert not rig.gateway.context.catalog.devices
    door.do("CREATE TIMESERIES root.p.d.v INT64")
    cq = "CREATE CQ q BEGIN SELECT count(v) INTO root.p.e({}) FROM root.p.d GROUP BY(1d) END"
    assert door.do(cq.format("time"))["code"] == 509
    assert door.do("SELECT v INTO root.p.e.timestamp FROM root.p.d")["code"] == 509
    assert door.do(cq.format("times")) == OK


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


# -- queries -------------------------------------------------------------------------------------------------


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


def test_an_aggregate_is_at_0_as_in_the_guide(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"])), ("count", "BIGINT", pa.array([3], pa.int64()))
    )
    assert door.ask("SELECT count(v) FROM root.p.d") == {
        "expressions": ["count(root.p.d.v)"], "column_names": None, "timestamps": [0], "values": [[3]],
    }  # fmt: skip
    assert door.ask("SELECT count(v) FROM root.p.d ALIGN BY DEVICE") == {
        "expressions": ["Device", "count(v)"], "column_names": None, "timestamps": [0],
        "values": [["root.p.d"], [3]],
    }  # fmt: skip


def test_a_float_is_shown_as_short_as_it_is(rig: Rig, door: Door) -> None:
    door.do("CREATE TIMESERIES root.p.d.v FLOAT")
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"])), ("time", "TIMESTAMP", pa.array([1], pa.int64())),
        ("v", "FLOAT", pa.array([1.1], pa.float32())),
    )  # fmt: skip
    assert door.ask("SELECT v FROM root.p.d")["values"] == [[1.1]]
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"])), ("v", "FLOAT", pa.array([1.1], pa.float32())),
        ("t", "TIMESTAMP", pa.array([1], pa.int64())),
    )  # fmt: skip
    assert door.ask("SELECT LAST v FROM root.p.d") == {
        "expressions": ["Timeseries", "Value", "DataType"], "column_names": None, "timestamps": [1],
        "values": [["root.p.d.v"], ["1.1"], ["FLOAT"]],
    }  # fmt: skip


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
    client = TestClient(app_of(rig.gateway))

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
