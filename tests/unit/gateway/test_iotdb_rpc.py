"""IoTDB's RPC with IoTDB's own Python client, on a gateway with a log in memory."""

from __future__ import annotations

import json
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from iotdb.Session import Session
from iotdb.thrift.rpc import IClientRPCService, ttypes
from iotdb.utils.exception import IoTDBConnectionException
from iotdb.utils.IoTDBConstants import Compressor, TSDataType, TSEncoding
from tests.unit.gateway.conftest import Calc, Rig, gateway_on
from tests.unit.gateway.iotdb_door import rows_of, written
from tests.unit.gateway.iotdb_port import LIMIT, Port, code, port, session, shown
from thrift.protocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport import TSocket, TTransport

from api_gateway.iotdb_rpc import server as serving
from api_gateway.service import gateway_app
from millrace.processes import free_port
from millrace_core.errors import MillraceError
from millrace_wal import MemoryLog

__all__ = ["port", "session"]
TOPIC = "wal.root-2ep.devices"
INT32, INT64, DOUBLE, TEXT = TSDataType.INT32, TSDataType.INT64, TSDataType.DOUBLE, TSDataType.TEXT


# -- sessions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
def test_a_session_opens_in_both_protocols(port: Port, compact: bool) -> None:
    session = port.session(compact=compact)
    assert session.is_open()
    session.execute_non_query_statement("CREATE DATABASE root.p")
    assert shown(session.execute_query_statement("SHOW DATABASES")) == [[0, "root.p"]]
    session.set_time_zone("+08:00")
    assert session.get_time_zone() == "+08:00"


def test_a_wrong_password_is_refused(port: Port, rig: Rig) -> None:
    assert code(lambda: port.session(password="wrong")) == 801
    port.session(password="taosdata")
    rig("ALTER USER root PASS 'Another_1'")
    assert code(port.session) == 801
    port.session(password="Another_1")


def test_a_session_ends_with_its_user_s_password(port: Port, rig: Rig) -> None:
    rig("CREATE USER eve PASS 'Secret_123'")
    eve = port.session("eve", "Secret_123")
    assert shown(eve.execute_query_statement("SHOW DATABASES")) == []
    rig("ALTER USER eve PASS 'Secret_124'")
    assert code(lambda: eve.execute_query_statement("SHOW DATABASES")) == 801
    rig("DROP USER eve")
    assert code(lambda: eve.execute_query_statement("SHOW DATABASES")) == 801


def test_a_time_zone_that_there_is_not(session: Any) -> None:
    assert code(lambda: session.execute_query_statement("SELECT")) == 700
    session.set_time_zone("Nowhere/Else")  # the client does not look at the answer
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1970-01-01T00:00:01, 1)")


def test_times_are_read_in_the_session_s_zone(rig: Rig, session: Any) -> None:
    session.set_time_zone("+01:00")
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1970-01-01T01:00:01, 1)")
    assert written(rig) == [("root.p.d", {"time": 1000, "v": 1.0})]


# -- statements and answers ----------------------------------------------------------------------------------


def test_statements_give_their_codes(session: Any) -> None:
    session.execute_non_query_statement("CREATE DATABASE root.p")
    assert code(lambda: session.execute_non_query_statement("CREATE DATABASE root.p")) == 501
    assert code(lambda: session.execute_query_statement("SELECT v FRM root.p")) == 700
    assert code(lambda: session.execute_non_query_statement("DROP CQ none")) == 1400
    assert session.execute_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)") is None


def test_all_types_of_an_answer(rig: Rig, session: Any) -> None:
    session.create_aligned_time_series(
        "root.p.d", ["a", "b", "c", "d", "e", "f", "g", "h"],
        [TSDataType.BOOLEAN, INT32, INT64, TSDataType.FLOAT, DOUBLE, TEXT, TSDataType.DATE, TSDataType.BLOB],
        [TSEncoding.PLAIN] * 8, [Compressor.SNAPPY] * 8,
    )  # fmt: skip
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"] * 2)),
        ("time", "TIMESTAMP", pa.array([1000, 2000], pa.int64())),
        ("a", "BOOL", pa.array([True, None])), ("b", "INT", pa.array([1, None], pa.int32())),
        ("c", "BIGINT", pa.array([-(2**40), None])), ("d", "FLOAT", pa.array([1.5, None], pa.float32())),
        ("e", "DOUBLE", pa.array([None, 2.25])), ("f", "VARCHAR(9)", pa.array(["é", None])),
        ("g", "VARCHAR(10)", pa.array(["2026-01-31", None])), ("h", "VARCHAR(9)", pa.array(["0x0fa0", None])),
    )  # fmt: skip
    data = session.execute_query_statement("SELECT a, b, c, d, e, f, g, h FROM root.p.d")
    assert data.get_column_names() == ["Time", *(f"root.p.d.{name}" for name in "abcdefgh")]
    assert shown(data) == [
        [1000, "True", "1", str(-(2**40)), "1.5", "None", "é", "2026-01-31", "0xfa0"],
        [2000, "None", "None", "None", "None", "2.25", "None", "None", "None"],
    ]


def test_by_device_and_without_times(rig: Rig, session: Any) -> None:
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rows_of(rig, ("root.p.d", 5, 2.5))
    data = session.execute_query_statement("SELECT v FROM root.p.d ALIGN BY DEVICE")
    assert data.get_column_names() == ["Time", "Device", "v"]
    assert shown(data) == [[5, "root.p.d", "2.5"]]
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"])), ("n", "BIGINT", pa.array([7])),
    )  # fmt: skip
    data = session.execute_query_statement("SELECT count(v) FROM root.p.d")
    assert data.get_column_names() == ["count(root.p.d.v)"]
    assert shown(data) == [[0, "7"]]
    assert shown(session.execute_query_statement("SELECT w FROM root.p.d")) == []


def test_an_answer_is_fetched_part_by_part(rig: Rig, port: Port) -> None:
    session = port.session(fetch_size=7)
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rows_of(rig, *(("root.p.d", at, float(at) if at % 3 else None) for at in range(1, 41)))
    data = session.execute_query_statement("SELECT v FROM root.p.d")
    times = [at for at in range(1, 41) if at % 3]
    assert shown(data) == [[at, str(float(at))] for at in times]
    rows_of(rig, *(("root.p.d", at, float(at)) for at in range(20)))
    frame = session.execute_query_statement("SELECT v FROM root.p.d").todf()
    assert list(frame.columns) == ["Time", "root.p.d.v"]
    assert frame["root.p.d.v"].tolist() == [float(at) for at in range(20)]


def test_one_connection_does_not_keep_answers_for_ever(rig: Rig, port: Port) -> None:
    session = port.session(fetch_size=1)
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rows_of(rig, ("root.p.d", 1, 1.0), ("root.p.d", 2, 2.0))
    first = session.execute_query_statement("SELECT v FROM root.p.d")
    for _ in range(64):
        last = session.execute_query_statement("SELECT v FROM root.p.d")
    assert len(shown(last)) == 2
    assert len(shown(first)) == 1, "what was sent with it"


def test_raw_and_last_queries(rig: Rig, session: Any) -> None:
    session.execute_non_query_statement("INSERT INTO root.p.d(time, v) VALUES (1, 2)")
    rows_of(rig, ("root.p.d", 5, 2.5))
    data = session.execute_raw_data_query(["root.p.d.v"], 2, 9)
    assert data.get_column_names() == ["Time", "root.p.d.v"]
    assert shown(data) == [[5, "2.5"]]
    assert "BETWEEN 2 AND 8" in rig.calc.asked[-1][1]["sql"]
    rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.d"])), ("v", "DOUBLE", pa.array([2.5])),
        ("t", "TIMESTAMP", pa.array([5], pa.int64())),
    )  # fmt: skip
    data = session.execute_last_data_query(["root.p.d.v"], 0)
    assert shown(data) == [[5, "root.p.d.v", "2.5", "DOUBLE"]]


# -- what is no client ---------------------------------------------------------------------------------------


def raw(port: Port) -> tuple[Any, Any]:
    """Calls without a session, and the transport."""
    transport = TTransport.TFramedTransport(TSocket.TSocket("127.0.0.1", port.server.port))
    transport.open()
    return IClientRPCService.Client(TBinaryProtocol.TBinaryProtocol(transport)), transport


def test_nothing_is_done_for_who_has_not_logged_in(port: Port) -> None:
    client, transport = raw(port)
    request = ttypes.TSExecuteStatementReq(1, "SHOW DATABASES", 1)
    assert client.executeStatementV2(request).status.code == 802
    assert client.deleteTimeseries(1, ["root.p.d.v"]).code == 802
    assert client.testInsertRecord(ttypes.TSInsertRecordReq(1, "root.d", ["v"], b"", 1)).code == 802
    assert client.fetchResultsV2(ttypes.TSFetchResultsReq(1, "", 1, 1, True)).status.code == 802
    assert client.getProperties().timestampPrecision == "ms"
    with pytest.raises(TApplicationException, match="Unknown function"):
        client.handshake(ttypes.TSyncIdentityInfo("a", 1, "b", "c"))
    transport.close()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"values": b"\x00"}, 303), ({"types": [77]}, 303), ({"size": 3}, 303), ({"size": -1}, 303),
        ({"types": []}, 303), ({"measurements": None}, 303), ({"writeToTable": True}, 300),
        ({"isCompressed": True}, 300), ({"prefixPath": "root"}, 509), ({"measurements": ["time"]}, 303),
    ],
)  # fmt: skip
def test_a_tablet_that_is_refused(rig: Rig, port: Port, change: dict[str, Any], expected: int) -> None:
    client, transport = raw(port)
    opened = client.openSession(ttypes.TSOpenSessionReq(2, "UTC", "root", "root", {}))
    assert opened.status.code == 200
    body = {
        "sessionId": 1, "prefixPath": "root.p.d", "measurements": ["v"], "values": struct.pack(">ii", 1, 2),
        "timestamps": struct.pack(">qq", 1, 2), "types": [1], "size": 2,
    }  # fmt: skip
    request = ttypes.TSInsertTabletReq(**body | change)
    request.validate = lambda: None  # it would not send what lacks something
    answer = client.insertTablet(request)
    assert answer.code == expected, answer.message
    assert "root.p" not in rig.gateway.context.catalog.databases
    transport.close()


def test_the_table_model_is_refused(port: Port) -> None:
    client, transport = raw(port)
    request = ttypes.TSOpenSessionReq(2, "UTC", "root", "root", {"sql_dialect": "table"})
    assert client.openSession(request).status.code == 300
    transport.close()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 17_000), struct.pack(">i", -1), b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 8) + b"\x80\x01\x00\x01\x7f\xff\xff\xff", struct.pack(">i", 3) + b"\x82\x21\x00",
    ],
)  # fmt: skip
def test_who_speaks_something_else_is_cut_off(port: Port, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port.server.port)) as sock:
        sock.settimeout(10)
        sock.sendall(data)
        with suppress(ConnectionResetError):
            assert sock.recv(100) == b""
    port.session()


def test_who_is_slow_to_log_in_is_cut_off(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.05)
    port = Port(rig)
    try:
        with socket.create_connection(("127.0.0.1", port.server.port)) as sock:
            sock.settimeout(10)
            with suppress(ConnectionResetError):
                assert sock.recv(100) == b""
    finally:
        port.close()


def test_who_has_logged_in_may_send_more(rig: Rig, session: Any) -> None:
    text = "x" * 50_000
    session.insert_record("root.p.d", 1, ["s"], [TEXT], [text])
    assert json.loads(rig.values(TOPIC)[-1][1])["s"] == text
    with pytest.raises(IoTDBConnectionException):
        session.insert_record("root.p.d", 1, ["s"], [TEXT], ["x" * LIMIT])


# -- in the service ------------------------------------------------------------------------------------------


def test_the_service_answers_on_its_port() -> None:
    number = free_port()
    gateway = gateway_on(MemoryLog(), Calc(), iotdb_rpc_port=number)
    with TestClient(gateway_app(gateway)):
        session = Session("127.0.0.1", number, zone_id="UTC")
        session.open()
        assert shown(session.execute_query_statement("SHOW DATABASES")) == []
        session.close()
    with pytest.raises(IoTDBConnectionException):
        session.open()


def test_without_its_package_the_gateway_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "api_gateway.iotdb_rpc.protocol", None)
    with pytest.raises(MillraceError, match="install api-gateway\\[iotdb\\]"):
        gateway_app(gateway_on(MemoryLog(), Calc(), iotdb_rpc_port=1))
