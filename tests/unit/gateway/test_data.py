"""INSERT, DELETE and queries."""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from api_gateway.statements.data import COUNT_SECONDS
from api_gateway.upkeep.registrations import new_children
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.model.schema import Child
from millrace_core.wire import operations, registrations
from millrace_core.wire.rows.arrow_stream import CONTINUATION
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_wal import Message

METERS = "CREATE STABLE meters (ts TIMESTAMP, amps FLOAT, n BIGINT UNSIGNED) TAGS (site INT)"


@pytest.fixture
def meters(rig: Any) -> Any:
    rig(METERS)
    rig("CREATE TABLE m1 USING meters TAGS (1)")
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    return rig


def decoded(rig: Any, topic: str, table: str) -> list[dict[str, Any]]:
    decoder = RowDecoder(rig.gateway.context.catalog.tables["d", table])
    found = decoder.decode([value for _, value in rig.values(topic)])
    assert not found.bad
    return found.frame.to_dicts()


def test_rows_of_a_statement_are_one_message_for_each_table(meters: Any) -> None:
    answer = meters(
        "INSERT INTO m1 VALUES (1767225601000, 1.5, 18446744073709551615) (1767225602000, NULL, 0) "
        "one (v, ts) VALUES (7, '2026-01-01 00:00:01') m2 USING meters TAGS (2) VALUES (now + 1s, 2, 1)"
    )
    assert answer.rows == [[4]]
    assert meters.values("wal.d.one") == [(b"one", b'{"v":7,"ts":1767225601000}')]
    mine = [(k, v) for k, v in meters.values("wal.d.meters") if k == b"m1"][1:]
    assert [json.loads(v) for _, v in mine] == [[
        {"ts": 1767225601000, "amps": 1.5, "n": 2**64 - 1}, {"ts": 1767225602000, "amps": None, "n": 0},
    ]]  # fmt: skip
    born = [(k, v) for k, v in meters.values("wal.d.meters") if k == b"m2"]
    assert born[0][1] == operations.encode_operation(operations.Register({"site": 2}))
    assert json.loads(born[1][1]) == {"ts": 1767225601000, "amps": 2.0, "n": 1}
    assert meters.gateway.context.catalog.children["d", "m2"].tags == (2,)
    assert len(decoded(meters, "wal.d.meters", "meters")) == 3


def test_many_rows_of_a_statement_are_one_message_in_arrow(meters: Any) -> None:
    rows = [(1767225600000 + i, i / 2 if i % 5 else None, 2**64 - 1 - i) for i in range(200)]
    texts = " ".join(f"({ts}, {'NULL' if amps is None else amps}, {n})" for ts, amps, n in rows)
    assert meters(f"INSERT INTO m1 VALUES {texts} one VALUES (1, 2)").rows == [[201]]
    [value] = [v for k, v in meters.values("wal.d.meters") if k == b"m1"][1:]
    assert value[:4] == CONTINUATION
    found = decoded(meters, "wal.d.meters", "meters")
    assert [(row["ts"], row["amps"], row["n"]) for row in found] == rows


@pytest.mark.parametrize(("values", "code", "column"), [
    ("m1 VALUES (1, 1, 1) one VALUES (1, 'x')", ErrorCode.TYPE_MISMATCH, 48),
    ("m1 VALUES (1, 1, 1) one VALUES (1, 3000000000)", ErrorCode.INVALID_VALUE, 48),
    ("m1 VALUES (1, 1, 1) one (ts, w) VALUES (1, 3)", ErrorCode.UNKNOWN_COLUMN, 42),
    ("m1 VALUES (1, 1, 1) absent VALUES (1, 3)", ErrorCode.UNKNOWN_TABLE, 33),
    ("m2 USING meters TAGS (1) VALUES (1, 1, 1) m3 USING meters TAGS ('x') VALUES (1, 1, 1)",
     ErrorCode.TYPE_MISMATCH, 77),
    ("m2 USING meters TAGS (1) VALUES (1, 1, 'x')", ErrorCode.TYPE_MISMATCH, 52),
    ("m1 USING absent TAGS (1) VALUES (1, 1, 1)", ErrorCode.UNKNOWN_TABLE, 22),
    ("one USING meters TAGS (1) VALUES (1, 1, 1)", ErrorCode.NOT_ALLOWED, 23),
    ("meters VALUES (1, 1, 1)", ErrorCode.NOT_ALLOWED, 13),
    ("one VALUES (NULL, 1)", ErrorCode.INVALID_VALUE, 25),
    ("information_schema.ins_tables VALUES (1)", ErrorCode.UNKNOWN_DATABASE, 13),
])  # fmt: skip
def test_one_bad_part_and_nothing_is_written(meters: Any, values: str, code: ErrorCode, column: int) -> None:
    error = meters.refused(f"INSERT INTO {values}")
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_rows_that_no_message_can_hold_are_refused(meters: Any) -> None:
    meters("CREATE TABLE wide (ts TIMESTAMP, a_rather_long_name_for_a_column_indeed BINARY(65000))")
    some = "".join(f"({i},'{'x' * 60000}')" for i in range(150))
    error = meters.refused(f"INSERT INTO wide VALUES {some}")
    assert error.code is ErrorCode.TOO_LARGE


def test_existing_tags_stay_when_rows_come_with_others(meters: Any) -> None:
    meters("INSERT INTO m1 USING meters TAGS (9) VALUES (now, 1, 1)")
    assert meters.gateway.context.catalog.children["d", "m1"].tags == (1,)
    assert [k for k, v in meters.values("wal.d.meters") if v[:1] == operations.OPERATION_MARK] == [b"m1"]


def test_a_child_that_many_insert_into_at_once_is_made_once(meters: Any) -> None:
    def work(number: int) -> None:
        meters(f"INSERT INTO shared USING meters TAGS ({number}) VALUES ({number + 1}, 1, 1)")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    mine = [v for k, v in meters.values("wal.d.meters") if k == b"shared"]
    assert mine[0][:1] == operations.OPERATION_MARK
    assert sorted(json.loads(v)["ts"] for v in mine[1:]) == list(range(1, 9))


def test_what_a_producer_registered_enters_the_catalog_once(meters: Any) -> None:
    context = meters.gateway.context
    meters("CREATE TABLE gone USING meters TAGS (5)")
    meters("DROP TABLE gone")
    before = meters.log.end_offsets("catalog")[0]
    children = [
        Child("d", "meters", "p1", (7,)), Child("d", "meters", "p1", (7,)), Child("d", "meters", "m1", (7,)),
        Child("d", "absent", "p2", (7,)), Child("d", "one", "p3", ()), Child("d", "meters", "gone", (5,)),
        Child("d", "meters", "gone", (6,), 1),
    ]  # fmt: skip
    messages = [Message(*registrations.encode(child)) for child in children]
    meters.log.append([*messages, Message("registrations", None, b"{")])
    done = threading.Event()
    for _ in range(200):
        if ("d", "gone") in context.catalog.children:
            break
        done.wait(0.02)
    assert context.catalog.children["d", "p1"].tags == (7,)
    assert context.catalog.children["d", "m1"].tags == (1,)
    assert context.catalog.children["d", "gone"].incarnation == 1
    assert meters.log.end_offsets("catalog")[0] == before + 2
    meters.restart()
    assert meters.log.end_offsets("catalog")[0] == before + 2
    assert new_children(meters.gateway.context.catalog, children) == []


# -- queries -------------------------------------------------------------------------------------------------


def test_a_query_carries_what_it_must_have_seen(meters: Any) -> None:
    meters.calc.answers(("v", "INT", pa.array([7], pa.int32())))
    meters("INSERT INTO one VALUES (1, 7) (2, 8)")
    meters("INSERT INTO one VALUES (3, 7)")
    answer = meters("SELECT v FROM one", timezone="Asia/Shanghai")
    assert answer.rows == [(7,)]
    path, asked = meters.calc.asked[-1]
    assert path == "/query"
    wal = asked.pop("wal")
    assert asked.pop("id")
    assert asked == {
        "sql": "SELECT v FROM one", "db": "d", "timezone": "Asia/Shanghai",
        "seconds": meters.gateway.context.settings.query_seconds,
        "catalog": meters.log.end_offsets("catalog")[0], "user": "root",
    }  # fmt: skip
    assert wal["wal.d.one"] == {"0": 2}
    meters.restart()
    meters("SELECT v FROM one")
    assert meters.calc.asked[-1][1]["wal"] == wal
    meters("DROP TABLE one")
    meters("SELECT 1")
    assert "wal.d.one" not in meters.calc.asked[-1][1]["wal"]


def test_what_calc_svc_says_is_wrong_is_told_as_it_is(meters: Any) -> None:
    meters.calc.error = MillraceError(ErrorCode.UNKNOWN_COLUMN, "no column w", Position(1, 8))
    error = meters.refused("SELECT w FROM one")
    assert (error.code, error.message, error.position) == (
        ErrorCode.UNKNOWN_COLUMN, "no column w", Position(1, 8),
    )  # fmt: skip
    meters.calc.away = True
    error = meters.refused("SELECT v FROM one")
    assert error.code is ErrorCode.UNAVAILABLE
    assert "calc-svc" in error.message


def test_facts_of_the_server_need_no_other_service(rig: Any) -> None:
    rig.calc.away = True
    assert rig("select server_version()", None).rows[0][0].startswith("3.3.7.0")
    assert rig("SELECT DATABASE();").rows == [["d"]]
    assert rig("SELECT DATABASE()", None).rows == [[None]]
    assert rig("SELECT SERVER_STATUS()").rows == [[1]]


def test_a_delete_is_an_operation_for_each_table(meters: Any) -> None:
    meters("CREATE TABLE m2 USING meters TAGS (2)")
    meters.calc.answers(("count(*)", "BIGINT", pa.array([5], pa.int64())))
    answer = meters("DELETE FROM meters WHERE ts >= '2026-01-01 00:00:01' AND ts < '2026-01-01 00:00:02'")
    assert answer.rows == [[5]]
    operation = operations.encode_operation(operations.Delete(1767225601000, 1767225601999))
    assert sorted(k for k, v in meters.values("wal.d.meters") if v == operation) == [b"m1", b"m2"]
    meters("DELETE FROM meters WHERE tbname = 'm2'")
    everything = operations.encode_operation(operations.Delete(-(2**63), 2**63 - 1))
    assert [k for k, v in meters.values("wal.d.meters") if v == everything] == [b"m2"]
    meters("DELETE FROM one WHERE ts = 5")
    assert meters.values("wal.d.one") == [(b"one", operations.encode_operation(operations.Delete(5, 5)))]
    before = meters.wal()
    assert meters("DELETE FROM one WHERE ts > 5 AND ts < 5").rows == [[0]]
    assert meters.wal() == before


@pytest.mark.parametrize(
    "code", [None, *(code for code in ErrorCode if code is not ErrorCode.QUERY_KILLED)], ids=str
)
def test_a_delete_that_calc_svc_does_not_count_is_written_without_a_number(
    meters: Any, code: ErrorCode | None
) -> None:
    """Whatever ails users' queries: a write does not depend on them."""
    meters.calc.away = code is None
    meters.calc.error = code and MillraceError(code, "another query could not be stopped: try again")
    answer = meters("DELETE FROM one WHERE ts = 5")
    assert meters.values("wal.d.one") == [(b"one", operations.encode_operation(operations.Delete(5, 5)))]
    assert answer.rows == [[0]], "clients read an integer"
    assert answer.note.startswith("the rows were deleted, but could not be counted: ")
    assert ("calc-svc" if code is None else "could not be stopped") in answer.note


def test_a_delete_waits_for_its_number_but_a_few_seconds(meters: Any) -> None:
    meters.calc.answers(("count(*)", "BIGINT", pa.array([5], pa.int64())))
    assert meters("DELETE FROM one WHERE ts = 5").note == ""
    assert meters.calc.asked[-1][1]["seconds"] == COUNT_SECONDS
    assert meters.calc.waits[-1] < 2 * COUNT_SECONDS
    meters("SELECT v FROM one")
    assert meters.calc.waits[-1] > meters.gateway.context.settings.query_seconds


def test_who_kills_a_delete_while_it_counts_ends_it(meters: Any) -> None:
    meters.calc.error = MillraceError(ErrorCode.QUERY_KILLED, "the query was killed by the user root")
    assert meters.refused("DELETE FROM one").code is ErrorCode.QUERY_KILLED


def test_a_delete_by_other_columns_is_refused(meters: Any) -> None:
    assert meters.refused("DELETE FROM one WHERE v = 1").code is ErrorCode.NOT_ALLOWED
