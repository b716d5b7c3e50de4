"""Schema and rows over IoTDB's RPC, with IoTDB's own Python client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from iotdb.utils.exception import StatementExecutionException
from iotdb.utils.IoTDBConstants import Compressor, TSDataType, TSEncoding
from iotdb.utils.NumpyTablet import NumpyTablet
from iotdb.utils.Tablet import Tablet
from tests.unit.gateway.conftest import Rig
from tests.unit.gateway.iotdb_door import written
from tests.unit.gateway.iotdb_port import Port, by_device, code, port, session, shown

from millrace_core.wire import operations

__all__ = ["port", "session"]
TOPIC = "wal.root-2ep.devices"
INT32, INT64, DOUBLE, TEXT = TSDataType.INT32, TSDataType.INT64, TSDataType.DOUBLE, TSDataType.TEXT


# -- schema --------------------------------------------------------------------------------------------------


def test_schema(session: Any) -> None:
    session.set_storage_group("root.p")
    session.create_time_series("root.p.d.v", INT32, TSEncoding.RLE, Compressor.SNAPPY)
    assert session.check_time_series_exists("root.p.d.v")
    assert not session.check_time_series_exists("root.p.d.w")
    again = ["root.p.d.v", "root.p.d.w", "root.p.`a b`.`x.y`"]

    def many() -> Any:
        return session.create_multi_time_series(
            again, [INT32, TEXT, DOUBLE], [TSEncoding.PLAIN] * 3, [Compressor.SNAPPY] * 3
        )

    with pytest.raises(StatementExecutionException, match=r"302: .*v already exists"):
        many()
    listed = shown(session.execute_query_statement("SHOW TIMESERIES root.p.**"))
    assert [(row[1], row[4]) for row in listed] == [
        ("root.p.`a b`.`x.y`", "DOUBLE"), ("root.p.d.v", "INT32"), ("root.p.d.w", "TEXT"),
    ]  # fmt: skip
    session.delete_time_series(["root.p.d.*", "root.p.`a b`.**"])
    assert shown(session.execute_query_statement("SHOW TIMESERIES root.p.**")) == []
    assert code(lambda: session.delete_time_series(["root.p.d.v"])) == 508
    session.delete_storage_group("root.p")
    assert code(lambda: session.delete_storage_group("root.p")) == 500
    refused = lambda: session.create_time_series(  # noqa: E731
        "root.q.d.v", INT32, TSEncoding.RLE, Compressor.SNAPPY, tags={"a": "b"}
    )
    assert code(refused) == 300
    assert code(lambda: session.set_storage_group("plant")) == 509


def test_values_are_deleted(rig: Rig, session: Any) -> None:
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    session.delete_data(["root.p.d.*"], 9)
    session.delete_data_in_range(["root.p.d.v"], 5, 7)
    found = [operations.decode_operation(value) for _, value in rig.values(TOPIC)[-2:]]
    assert found[0].last == 9  # type: ignore[union-attr]
    assert found[1] == operations.Delete(5, 7)


# -- rows ----------------------------------------------------------------------------------------------------


def test_records(rig: Rig, session: Any) -> None:
    session.insert_record("root.p.d", 1, ["a", "b"], [INT32, TEXT], [7, "x"])
    session.insert_aligned_record("root.p.e", 1, ["a", "b"], [INT64, TSDataType.BOOLEAN], [7, None])
    session.insert_records(
        ["root.p.d", "root.p.f"], [2, 3], [["a"], ["c"]], [[INT32], [DOUBLE]], [[8], [1.5]]
    )
    assert by_device(rig) == [
        ("root.p.d", {"time": 1, "a": 7, "b": "x"}), ("root.p.d", {"time": 2, "a": 8}),
        ("root.p.e", {"time": 1, "a:INT64": 7}), ("root.p.f", {"time": 3, "c": 1.5}),
    ]  # fmt: skip
    assert shown(session.execute_query_statement("SHOW DEVICES root.p.e")) == [[0, "root.p.e", "true"]]


def test_records_of_one_device(rig: Rig, session: Any) -> None:
    session.insert_records_of_one_device(
        "root.p.d", [2, 1, 3], [["a"], ["a"], ["a", "b"]], [[INT32], [INT32], [INT32, TEXT]],
        [[2], [1], [3, "x"]],
    )  # fmt: skip
    assert by_device(rig) == [
        ("root.p.d", [{"time": 1, "a": 1}, {"time": 2, "a": 2}]), ("root.p.d", {"time": 3, "a": 3, "b": "x"}),
    ]  # fmt: skip


def test_texts_whose_types_are_found_out(rig: Rig, session: Any) -> None:
    session.insert_str_record("root.p.d", 1, ["a", "b", "c"], ["1.5", "true", "x"])
    session.execute_non_query_statement("CREATE TIMESERIES root.p.e.a TEXT")
    session.insert_string_records_of_one_device("root.p.e", [1, 2], [["a"], ["a"]], [["7"], ["y"]])
    assert by_device(rig) == [
        ("root.p.d", {"time": 1, "a": 1.5, "b": True, "c": "x"}),
        ("root.p.e", {"time": 1, "a:TEXT": "7"}), ("root.p.e", {"time": 2, "a:TEXT": "y"}),
    ]  # fmt: skip


def test_tablets(rig: Rig, session: Any) -> None:
    tablet = Tablet("root.p.d", ["a", "b"], [INT32, TEXT], [[1, "x"], [None, "y"]], [1, 2])
    session.insert_tablet(tablet)
    arrays = NumpyTablet("root.p.e", ["a"], [DOUBLE], [np.array([1.5, 2.5])], np.array([1, 2]))
    session.insert_aligned_tablet(arrays)
    session.insert_tablets([Tablet("root.p.d", ["a"], [INT32], [[3]], [3]), arrays])
    session.test_insert_tablet(Tablet("root.p.z", ["a"], [INT32], [[3]], [3]))
    assert by_device(rig) == [
        ("root.p.d", {"time": 1, "a": 1, "b": "x"}), ("root.p.d", {"time": 2, "b": "y"}),
        ("root.p.d", {"time": 3, "a": 3}),
        ("root.p.e", [{"time": 1, "a:DOUBLE": 1.5}, {"time": 2, "a:DOUBLE": 2.5}]),
        ("root.p.e", [{"time": 1, "a:DOUBLE": 1.5}, {"time": 2, "a:DOUBLE": 2.5}]),
    ]  # fmt: skip


def test_what_does_not_fit_fails_its_column_alone(rig: Rig, session: Any) -> None:
    session.execute_non_query_statement("CREATE TIMESERIES root.p.d.v INT32")
    row = ("root.p.d", 1, ["v", "w"], [TEXT, INT32], ["x", 5])
    assert code(lambda: session.insert_record(*row)) == 507
    assert written(rig) == [("root.p.d", {"time": 1, "w": 5})]
    assert code(lambda: session.insert_record("root.p.d", 1, ["v", "v"], [INT32] * 2, [1, 2])) == 303
    assert code(lambda: session.insert_record("plant.d", 1, ["v"], [INT32], [1])) == 509


def test_a_user_does_what_is_granted(rig: Rig, port: Port, session: Any) -> None:
    session.insert_record("root.p.d", 1, ["v"], [INT32], [1])
    rig("CREATE USER eve PASS 'Secret_123'")
    eve = port.session("eve", "Secret_123")
    write = lambda: eve.insert_record("root.p.d", 2, ["v"], [INT32], [2])  # noqa: E731
    assert code(write) == 803
    assert code(lambda: eve.execute_query_statement("SELECT v FROM root.p.d")) == 803
    assert code(lambda: eve.delete_data(["root.p.d.v"], 9)) == 803
    rig("GRANT WRITE ON `root.p`.* TO eve")
    write()
