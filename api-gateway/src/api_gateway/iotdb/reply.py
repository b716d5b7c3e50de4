"""What a statement of IoTDB gives back, whichever protocol asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api_gateway.answer import Answer, AnswerColumn, affected
from millrace_core.dialect.iotdb.schema import COLUMN_TYPES
from millrace_core.dialect.iotdb.select.assemble import Result
from millrace_core.model.types import TIMESTAMP, DataType


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of SHOW, COUNT and SELECT … INTO. ``types``: IoTDB's. ``hint``: see :class:`Done`."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[object, ...]]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The statement is done. ``rows``: how many were written; ``hint``: what failed without failing it."""

    rows: int = 0
    hint: str = ""


Reply = Result | Listing | Done
_NAME = DataType("VARCHAR", 192)


def as_answer(reply: Reply) -> Answer:
    """The reply as rows for the SQL endpoint: Time and Device, if any, come before the values."""
    match reply:
        case Done():
            return affected(reply.rows)
        case Listing():
            columns = tuple(
                AnswerColumn(name, COLUMN_TYPES[type_])
                for name, type_ in zip(reply.names, reply.types, strict=True)
            )
            return Answer(columns, reply.rows)
        case Result():
            head: list[AnswerColumn] = []
            cells: list[Sequence[object]] = []
            if reply.times is not None:
                head.append(AnswerColumn("Time", TIMESTAMP))
                cells.append(reply.times)
            if reply.devices is not None:
                head.append(AnswerColumn("Device", _NAME))
                cells.append(reply.devices)
            values = [
                AnswerColumn(name, COLUMN_TYPES[type_])
                for name, type_ in zip(reply.names, reply.types, strict=True)
            ]
            return Answer((*head, *values), list(zip(*cells, *reply.values, strict=True)))
