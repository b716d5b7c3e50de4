"""Answers as TDengine's REST protocol writes them."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest

from api_gateway.answer import Answer, AnswerColumn, affected, rest_error, rest_reply
from api_gateway.calc_client import read_arrow
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.model.schema import Precision
from millrace_core.model.types import DataType


def reply(column: AnswerColumn, *values: object, timezone: str = "UTC") -> list[object]:
    body = rest_reply(Answer((column,), [[value] for value in values]), timezone)
    data = json.loads(msgspec.json.encode(body))["data"]
    return [row[0] for row in data]


def test_a_note_stands_beside_the_rows() -> None:
    noted = rest_reply(affected(0, "not counted"), "UTC")
    assert noted == rest_reply(affected(0), "UTC") | {"note": "not counted"}


def test_a_statement_without_rows_answers_with_affected_rows() -> None:
    assert rest_reply(affected(3), "UTC") == {
        "code": 0, "column_meta": [["affected_rows", "INT", 4]], "data": [[3]], "rows": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("precision", "ticks", "timezone", "text"), [
    ("ms", 1_767_225_601_000, "UTC", "2026-01-01T00:00:01.000Z"),
    ("us", 1_767_225_601_000_007, "UTC", "2026-01-01T00:00:01.000007Z"),
    ("ns", 1_767_225_601_000_000_007, "UTC", "2026-01-01T00:00:01.000000007Z"),
    ("ms", 1_767_225_601_000, "Asia/Shanghai", "2026-01-01T08:00:01.000+08:00"),
    ("ms", -1, "UTC", "1969-12-31T23:59:59.999Z"),
])  # fmt: skip
def test_timestamps_are_rfc_3339_with_the_digits_of_their_precision(
    precision: Precision, ticks: int, timezone: str, text: str
) -> None:
    column = AnswerColumn("ts", DataType("TIMESTAMP"), precision)
    assert reply(column, ticks, None, timezone=timezone) == [text, None]


def test_values_of_every_type() -> None:
    def of(type_: str, *values: object) -> list[object]:
        return reply(AnswerColumn("c", DataType(type_)), *values)

    assert of("BOOL", True, False, None) == [True, False, None]
    assert of("BIGINT", 2**63 - 1, -(2**63), None) == [2**63 - 1, -(2**63), None]
    assert of("BIGINT UNSIGNED", Decimal(2**64 - 1)) == [2**64 - 1]
    assert of("DOUBLE", 0.1, math.nan, math.inf, -math.inf, None) == [0.1, None, None, None, None]
    # the float nearest to 1.1, as Arrow hands it over
    assert of("FLOAT", 1.100000023841858, 3.4028234663852886e38, math.nan, None) == [
        1.1, 3.4028235e38, None, None,
    ]  # fmt: skip
    assert of("VARCHAR", "a\"b'ö", None) == ["a\"b'ö", None]
    assert of("VARBINARY", b"\x7f\x00", None) == ["7f00", None]
    assert of("JSON", '{"a": 1}', None) == [{"a": 1}, None]


def test_rows_carry_the_names_of_the_columns_when_asked() -> None:
    columns = (AnswerColumn("a", DataType("INT")), AnswerColumn("b", DataType("VARCHAR", 16)))
    body = rest_reply(Answer(columns, [[1, "x"], [2, None]]), "UTC", with_names=True)
    assert body["data"] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert body["column_meta"] == [["a", "INT", 4], ["b", "VARCHAR", 16]]


def test_no_rows_still_tell_the_columns() -> None:
    body = rest_reply(Answer((AnswerColumn("a", DataType("INT")),), []), "UTC")
    assert body == {"code": 0, "column_meta": [["a", "INT", 4]], "data": [], "rows": 0}


def test_an_error_is_its_number_and_a_sentence_with_the_place() -> None:
    error = MillraceError(ErrorCode.SYNTAX, "expected FROM", Position(2, 7))
    assert rest_error(error) == {"code": 0x2600, "desc": "expected FROM (line 2, column 7)"}


def test_rows_of_calc_svc_that_cannot_be_read_are_an_internal_error() -> None:
    table = pa.table({"a": [1]})  # without the types' names
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for data in (b"", b"no arrow", sink.getvalue().to_pybytes()):
        with pytest.raises(MillraceError) as caught:
            read_arrow(data)
        assert caught.value.code is ErrorCode.INTERNAL
