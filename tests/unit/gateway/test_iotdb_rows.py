"""IoTDB's rows on a gateway with a log in memory: INSERT, tablets, records, DELETE, SELECT … INTO."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from tests.unit.gateway.apps import app_of
from tests.unit.gateway.conftest import Rig
from tests.unit.gateway.iotdb_door import OK, TOPIC, Door, door, rows_of, written

from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.wire import operations

__all__ = ["door"]

# -- rows ----------------------------------------------------------------------------------------------------


def test_an_insert_makes_its_schema(rig: Rig, door: Door) -> None:
    text = "INSERT INTO root.p.d(time, v, t, b) VALUES (1, 2, 'x', true), (2, null, 'y', null)"
    assert door.do(text) == OK
    assert written(rig) == [
        ("root.p.d", {"time": 1, "v": 2.0, "t": "x", "b": True}), ("root.p.d", {"time": 2, "t": "y"}),
    ]  # fmt: skip
    assert door.ask("SHOW TIMESERIES")["values"][3] == ["BOOLEAN", "TEXT", "DOUBLE"]


def test_dates_blobs_and_numbers_as_text(rig: Rig, door: Door) -> None:
    assert door.do("CREATE ALIGNED TIMESERIES root.p.d(day DATE, raw BLOB, t TEXT)") == OK
    body = door.do("INSERT INTO root.p.d(time, day, raw, t) VALUES (1, '2026-01-31', X'0FA0', 2.5)")
    assert body == OK
    assert written(rig) == [("root.p.d", {"time": 1, "day": "2026-01-31", "raw": "0x0fa0", "t": "2.5"})]
    body = door.do("INSERT INTO root.p.d(time, day, raw, t) VALUES (2, '2026-02-30', 'raw', true)")
    assert body["code"] == 507
    said = "root.p.d.day: '2026-02-30' is not a valid DATE; root.p.d.raw: 'raw' is not a valid BLOB"
    assert said in body["message"]
    assert written(rig)[1:] == [("root.p.d", {"time": 2, "t": "true"})]
    assert door.ask("SHOW TIMESERIES")["values"][3] == ["DATE", "BLOB", "TEXT"]


def test_further_measurements_are_further_columns(rig: Rig, door: Door) -> None:
    door.do("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    door.do("INSERT INTO root.p.e(time, v, w) VALUES (1, 'text', 3)")
    table = rig.gateway.context.catalog.tables["root.p", "devices"]
    assert [column.name for column in table.columns] == ["time", "v", "v:TEXT", "w"]
    assert written(rig)[-1] == ("root.p.e", {"time": 1, "v:TEXT": "text", "w": 3.0})


def test_aligned_is_what_a_device_was_made_with(rig: Rig, door: Door) -> None:
    door.do("CREATE ALIGNED TIMESERIES root.p.gps(lat DOUBLE)")
    door.do("CREATE TIMESERIES root.p.d.v DOUBLE")
    assert door.do("INSERT INTO root.p.gps(time, lat, lon) VALUES (1, 2, 3)") == OK
    assert door.do("INSERT INTO root.p.d(time, v) ALIGNED VALUES (1, 2)") == OK
    assert door.ask("SHOW DEVICES")["values"] == [["root.p.d", "root.p.gps"], ["false", "true"]]


def test_a_row_without_a_time_is_of_now(rig: Rig, door: Door) -> None:
    before = time.time_ns() // 1_000_000
    assert door.do("INSERT INTO root.p.d(v) VALUES (1)") == OK
    assert before <= written(rig)[0][1]["time"] <= time.time_ns() // 1_000_000


def test_what_does_not_fit_fails_its_column_alone(rig: Rig, door: Door) -> None:
    door.do("CREATE TIMESERIES root.p.d.v INT32")
    body = door.do("INSERT INTO root.p.d(time, v, w) VALUES (1, 'x', 2)")
    assert body["code"] == 507
    assert "root.p.d.v: 'x' is not a valid INT32" in body["message"]
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
        ({"values": [[1]]}, 303), ({"data_types": ["INT"]}, 303),
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


# -- SELECT … INTO -------------------------------------------------------------------------------------------


def sql(rig: Rig, text: str) -> Any:
    client = TestClient(app_of(rig.gateway))
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
