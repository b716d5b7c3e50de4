"""What a statement gives back, and how TDengine's REST protocol writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from millrace_core.errors import MillraceError
from millrace_core.model.schema import Precision
from millrace_core.model.types import DataType
from millrace_core.timeline.text import format_rfc3339

INT = DataType("INT")


class AnswerColumn(NamedTuple):
    """A column of an answer; ``precision``: what one tick of a TIMESTAMP is."""

    name: str
    type: DataType
    precision: Precision = "ms"


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of Python values in the order of the columns: int (TIMESTAMP: ticks), float, bool, str, None.
    ``note``: what else there is to know about them."""

    columns: tuple[AnswerColumn, ...]
    rows: Sequence[Sequence[object]]
    note: str = ""


def affected(rows: int, note: str = "") -> Answer:
    """The answer of a statement that has no rows of its own."""
    return Answer((AnswerColumn("affected_rows", INT),), [[rows]], note)


def text_column(name: str, length: int) -> AnswerColumn:
    return AnswerColumn(name, DataType("VARCHAR", length))


def rest_reply(answer: Answer, timezone: str, *, with_names: bool = False) -> dict[str, object]:
    """``{"code": 0, "column_meta": [[name, type, length], …], "data": […], "rows": n}``.

    TIMESTAMPs are written as RFC 3339 in the time zone, with the digits of their precision; what JSON cannot
    express (NaN, infinity) becomes null. ``with_names``: each row becomes an object of the columns
    (TDengine's ``row_with_meta``). An answer's note goes into ``note``, which TDengine does not have and its
    clients do not read.
    """
    converters = [_converter(column, timezone) for column in answer.columns]
    columns = [[convert(row[i]) for row in answer.rows] for i, convert in enumerate(converters)]
    data: list[object] = [list(row) for row in zip(*columns, strict=True)]
    if with_names:
        names = [column.name for column in answer.columns]
        data = [dict(zip(names, row, strict=True)) for row in data]  # type: ignore[call-overload]
    meta = [[column.name, column.type.name, column.type.size] for column in answer.columns]
    note = {"note": answer.note} if answer.note else {}
    return {"code": 0, "column_meta": meta, "data": data, "rows": len(data), **note}


def rest_error(error: MillraceError) -> dict[str, object]:
    """``{"code": n, "desc": "…"}``; the description ends with the place in the SQL, where there is one."""
    return {"code": error.code.value.number, "desc": str(error)}


def _converter(column: AnswerColumn, timezone: str) -> Callable[[object], object]:
    match column.type.name:
        case "TIMESTAMP":
            return lambda v: format_rfc3339(v, column.precision, timezone) if isinstance(v, int) else None
        case "FLOAT":
            return _float32
        case "DOUBLE":
            return lambda v: v if isinstance(v, float) and math.isfinite(v) else None
        case "VARBINARY":
            return lambda v: v.hex() if isinstance(v, bytes) else v
        case "JSON":
            return lambda v: json.loads(v) if isinstance(v, str) else None
        case _:
            return lambda v: int(v) if isinstance(v, Decimal) else v


def _float32(value: object) -> object:
    """The shortest number that stands for the same FLOAT: 1.1, not 1.10000002384."""
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return float(str(np.float32(value)))
