"""The answers of IoTDB's RPC."""

from __future__ import annotations

from typing import Any

from iotdb.thrift.common import ttypes as common
from iotdb.thrift.rpc import ttypes as rpc

from api_gateway.iotdb.reply import Done, Listing, Reply
from api_gateway.iotdb_rpc.session import Client, cursor_of
from millrace_core.dialect.iotdb import Status, status_of
from millrace_core.errors import MillraceError

MULTIPLE_ERROR = 302
_NUMBERS = {Status.WRONG_LOGIN: 801, Status.NO_LOGIN: 802}
"""IoTDB's RPC has other numbers for these than its REST API."""


def status(code: int, message: str, parts: list[Any] | None = None) -> Any:
    return common.TSStatus(code=code, message=message, subStatus=parts)


def success(hint: str = "") -> Any:
    """The status of success; ``hint``: what triggers have failed at."""
    message = "SUCCESS_STATUS"
    return status(Status.SUCCESS.number, f"{message}: {hint}" if hint else message)


def failure(error: MillraceError) -> Any:
    found = status_of(error)
    return status(_NUMBERS.get(found, found.number), str(error))


def together(parts: list[Any]) -> Any:
    """The status for several parts: if one has failed, the statuses of all are shown."""
    if all(part.code == Status.SUCCESS.number for part in parts):
        return success()
    return status(MULTIPLE_ERROR, "MULTIPLE_ERROR", parts)


def answer(client: Client, reply: Reply, wanted: int | None) -> Any:
    """What a statement gave: the first ``wanted`` rows; the others are fetched later."""
    if isinstance(reply, Done):
        return rpc.TSExecuteStatementResp(status=success(reply.hint))
    hint = reply.hint if isinstance(reply, Listing) else ""
    cursor = cursor_of(reply)
    blocks = cursor.take(wanted)
    places: dict[str, int] = {}
    for place, name in enumerate(cursor.names):
        places.setdefault(name, place)
    return rpc.TSExecuteStatementResp(
        status=success(hint), queryId=client.keep(cursor), columns=cursor.names, dataTypeList=cursor.types,
        ignoreTimeStamp=cursor.times is None, columnNameIndexMap=places, queryResult=blocks,
        moreData=cursor.more, columnIndex2TsBlockColumnIndexList=list(range(len(cursor.names))),
        operationType="QUERY",
    )  # fmt: skip
