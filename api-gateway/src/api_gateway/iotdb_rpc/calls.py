"""What each call of IoTDB's RPC does. Statements, schema and rows are handled as those of the REST door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from iotdb.thrift.rpc import ttypes as rpc
from thrift.protocol.TProtocol import TProtocolException

from api_gateway.firing import Firing
from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.iotdb.schema import Wanted
from api_gateway.iotdb.write import Tablet
from api_gateway.iotdb_rpc import replies, writes
from api_gateway.iotdb_rpc.session import Client
from millrace_core.dialect.iotdb import IotdbError, Status
from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import ROOT, Node, Pattern
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES
from millrace_core.errors import MillraceError, Position
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire.iotdb.rows import type_of

_HERE = Position(1, 1)
VERSION = "2.0.5"
"""The version of IoTDB whose calls these are."""
PROTOCOL = 2
"""IOTDB_SERVICE_PROTOCOL_V3."""
Method = Callable[..., Any]


def _says(failed: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Decorates a call so that it answers errors: ``failed`` makes the answer from an error's status."""

    def around(method: Method) -> Method:
        @wraps(method)
        def call(*given: Any) -> Any:
            try:
                _check(given)
                return method(*given)
            except MillraceError as error:
                return failed(replies.failure(error))

        return call

    return around


_status = _says(lambda status: status)
_rows = _says(lambda status: rpc.TSExecuteStatementResp(status=status))


def _check(given: Sequence[Any]) -> None:
    """:raises IotdbError: ILLEGAL_PARAMETER if a request lacks what it must have."""
    for one in given:
        if hasattr(one, "validate"):
            try:
                one.validate()
            except TProtocolException as error:
                raise IotdbError(Status.ILLEGAL_PARAMETER, str(error)) from None
        elif one is None:
            raise IotdbError(Status.ILLEGAL_PARAMETER, "a parameter is missing")


class Calls:
    """The calls of one connection, under the names of IoTDB's interface."""

    def __init__(self, executor: IotdbExecutor, client: Client) -> None:
        self._executor, self._client = executor, client

    # -- sessions --------------------------------------------------------------------------------------------

    @_says(lambda status: rpc.TSOpenSessionResp(status=status, serverProtocolVersion=PROTOCOL))
    def openSession(self, req: Any) -> Any:  # noqa: N802
        if (req.configuration or {}).get("sql_dialect", "tree") != "tree":
            raise unsupported("the table model is not supported: open a session of the tree model")
        number = self._client.log_in(req.username or "", req.password or "", req.zoneId)
        return rpc.TSOpenSessionResp(
            status=replies.success(), serverProtocolVersion=PROTOCOL, sessionId=number,
            configuration={"timestamp_precision": "ms"},
        )  # fmt: skip

    def closeSession(self, _req: Any) -> Any:  # noqa: N802
        self._client.log_out()
        return replies.success()

    def requestStatementId(self, _session: int) -> int:  # noqa: N802
        return next(self._client.numbers)

    @_status
    def setTimeZone(self, req: Any) -> Any:  # noqa: N802
        self._client.session()
        self._client.set_timezone(req.timeZone)
        return replies.success()

    @_says(lambda status: rpc.TSGetTimeZoneResp(status=status, timeZone=""))
    def getTimeZone(self, _session: int) -> Any:  # noqa: N802
        self._client.session()
        return rpc.TSGetTimeZoneResp(status=replies.success(), timeZone=self._client.timezone)

    def getProperties(self) -> Any:  # noqa: N802
        return rpc.ServerProperties(
            version=VERSION, supportedTimeAggregationOperations=sorted(AGGREGATES), timestampPrecision="ms",
            isReadOnly=False,
        )  # fmt: skip

    # -- statements ------------------------------------------------------------------------------------------

    @_rows
    def executeStatementV2(self, req: Any) -> Any:  # noqa: N802
        reply = self._executor.execute(self._client.session(), req.statement)
        return replies.answer(self._client, reply, req.fetchSize)

    executeQueryStatementV2 = executeUpdateStatementV2 = executeStatementV2  # noqa: N815

    @_status
    def executeBatchStatement(self, req: Any) -> Any:  # noqa: N802
        return replies.together([self._one_of_batch(statement) for statement in req.statements])

    @_status
    def _one_of_batch(self, statement: str) -> Any:
        reply = self._executor.execute(self._client.session(), statement)
        return replies.success(reply.hint if isinstance(reply, Done | Listing) else "")

    @_rows
    def executeRawDataQueryV2(self, req: Any) -> Any:  # noqa: N802
        return self._select(req, _between(req.startTime, req.endTime - 1))

    @_rows
    def executeLastDataQueryV2(self, req: Any) -> Any:  # noqa: N802
        return self._select(req, _between(req.time, HIGHEST), last=True)

    def _select(self, req: Any, where: e.Expression, *, last: bool = False) -> Any:
        items = [
            s.Item(e.SeriesRef(Pattern(found.nodes[1:], _HERE)), None, str(found))
            for found in _patterns(req.paths)
        ]
        statement = s.Select(_HERE, tuple(items), (Pattern((Node(ROOT),)),), where=where, last=last)
        reply = self._executor.perform(self._client.session(), statement)
        return replies.answer(self._client, reply, req.fetchSize)

    @_says(lambda status: rpc.TSFetchResultsResp(status=status, hasResultSet=False, isAlign=True))
    def fetchResultsV2(self, req: Any) -> Any:  # noqa: N802
        self._client.session()
        blocks, more = self._client.fetch(req.queryId, req.fetchSize)
        return rpc.TSFetchResultsResp(
            status=replies.success(), hasResultSet=bool(blocks), isAlign=True, queryResult=blocks,
            moreData=more,
        )  # fmt: skip

    def closeOperation(self, req: Any) -> Any:  # noqa: N802
        self._client.close(req.queryId)
        return replies.success()

    def cancelOperation(self, req: Any) -> Any:  # noqa: N802
        self._client.close(req.queryId)
        return replies.success()

    # -- schema ----------------------------------------------------------------------------------------------

    def _do(self, statement: s.Statement) -> Any:
        reply = self._executor.perform(self._client.session(), statement)
        return replies.success(reply.hint if isinstance(reply, Done | Listing) else "")

    @_status
    def setStorageGroup(self, _session: int, path: str) -> Any:  # noqa: N802
        return self._do(s.CreateDatabase(writes.path(path, "a database")))

    @_status
    def deleteStorageGroups(self, _session: int, paths: list[str]) -> Any:  # noqa: N802
        return self._do(s.DeleteDatabase(tuple(_patterns(paths))))

    @_status
    def createTimeseries(self, req: Any) -> Any:  # noqa: N802
        _check_extras(req.tags, req.attributes, req.measurementAlias)
        device, series = _series(req.path, req.dataType)
        return self._do(s.CreateTimeseries(device, (series,)))

    @_status
    def createAlignedTimeseries(self, req: Any) -> Any:  # noqa: N802
        _check_extras(req.tagsList, req.attributesList, req.measurementAlias)
        writes.uneven(req.measurements, req.dataTypes)
        made = zip(writes.names(req.measurements), req.dataTypes, strict=True)
        series = tuple(s.NewSeries(name, type_of(number), _HERE) for name, number in made)
        device = writes.path(req.prefixPath, "a device")
        return self._do(s.CreateTimeseries(device, series, aligned=True))

    @_status
    def createMultiTimeseries(self, req: Any) -> Any:  # noqa: N802
        _check_extras(req.tagsList, req.attributesList, req.measurementAliasList)
        writes.uneven(req.paths, req.dataTypes)
        wanted = []
        for path, number in zip(req.paths, req.dataTypes, strict=True):
            device, series = _series(path, number)
            wanted.append(Wanted(device.names, [(series.measurement, series.type)], False))
        there = self._executor.create_series(self._client.session(), wanted)
        return replies.together(
            [replies.failure(error) if error is not None else replies.success() for error in there]
        )

    @_status
    def deleteTimeseries(self, _session: int, paths: list[str]) -> Any:  # noqa: N802
        return self._do(s.DeleteTimeseries(tuple(_patterns(paths))))

    @_status
    def deleteData(self, req: Any) -> Any:  # noqa: N802
        return self._do(s.Delete(tuple(_patterns(req.paths)), _between(req.startTime, req.endTime)))

    # -- rows ------------------------------------------------------------------------------------------------

    def _write(self, tablets: Sequence[Tablet]) -> Any:
        firing = Firing()
        self._executor.write(self._client.session(), list(tablets), firing)
        return replies.success("; ".join(firing.notes))

    def _one(self, req: Any, row: writes.Row) -> Any:
        return self._write(writes.together(req.prefixPath, [row], bool(req.isAligned)))

    @_status
    def insertRecord(self, req: Any) -> Any:  # noqa: N802
        if req.isWriteToTable:
            raise unsupported("the table model is not supported: write to devices")
        return self._one(req, writes.record(req.timestamp, req.measurements, req.values))

    @_status
    def insertStringRecord(self, req: Any) -> Any:  # noqa: N802
        return self._one(req, writes.texts(req.timestamp, req.measurements, req.values))

    def _records(self, req: Any, read: Callable[[int, list[str], Any], writes.Row]) -> Any:
        writes.uneven(req.prefixPaths, req.timestamps, req.measurementsList, req.valuesList)
        rows = zip(req.prefixPaths, req.timestamps, req.measurementsList, req.valuesList, strict=True)
        tablets: list[Tablet] = []
        for device, at, measurements, values in rows:
            tablets += writes.together(device, [read(at, measurements, values)], bool(req.isAligned))
        return self._write(tablets)

    @_status
    def insertRecords(self, req: Any) -> Any:  # noqa: N802
        return self._records(req, writes.record)

    @_status
    def insertStringRecords(self, req: Any) -> Any:  # noqa: N802
        return self._records(req, writes.texts)

    def _of_one_device(self, req: Any, read: Callable[[int, list[str], Any], writes.Row]) -> Any:
        writes.uneven(req.timestamps, req.measurementsList, req.valuesList)
        rows = [read(*row) for row in zip(req.timestamps, req.measurementsList, req.valuesList, strict=True)]
        return self._write(writes.together(req.prefixPath, rows, bool(req.isAligned)))

    @_status
    def insertRecordsOfOneDevice(self, req: Any) -> Any:  # noqa: N802
        return self._of_one_device(req, writes.record)

    @_status
    def insertStringRecordsOfOneDevice(self, req: Any) -> Any:  # noqa: N802
        return self._of_one_device(req, writes.texts)

    @_status
    def insertTablet(self, req: Any) -> Any:  # noqa: N802
        writes.check_plain(req)
        made = writes.tablet(
            req.prefixPath, req.measurements, req.types, req.values, req.timestamps, req.size,
            bool(req.isAligned),
        )  # fmt: skip
        return self._write([made])

    @_status
    def insertTablets(self, req: Any) -> Any:  # noqa: N802
        lists = (req.prefixPaths, req.measurementsList, req.typesList, req.valuesList, req.timestampsList)
        writes.uneven(*lists, req.sizeList)
        made = [
            writes.tablet(device, measurements, types, values, times, size, bool(req.isAligned))
            for device, measurements, types, values, times, size in zip(*lists, req.sizeList, strict=True)
        ]
        return self._write(made)

    @_status
    def _nothing(self, _req: Any) -> Any:
        """A call with which clients measure their own speed: nothing is written."""
        self._client.session()
        return replies.success()

    testInsertTablet = testInsertTablets = testInsertRecord = testInsertRecords = _nothing  # noqa: N815
    testInsertRecordsOfOneDevice = testInsertStringRecord = testInsertStringRecords = _nothing  # noqa: N815


def _between(first: int, last: int) -> e.Expression:
    low, high = (e.Constant(max(min(at, HIGHEST), LOWEST), _HERE) for at in (first, last))
    return e.Between(e.TimeColumn(_HERE), low, high, False, _HERE)


def _patterns(texts: Sequence[str]) -> list[Pattern]:
    """:raises IotdbError: for what is not a path or a pattern."""
    found = []
    for text in texts:
        cursor = Cursor(text)
        found.append(cursor.path("a path"))
        cursor.finish()
        if len(found[-1].nodes) < 2:
            raise IotdbError(Status.ILLEGAL_PATH, "root is neither a database nor a series")
    return found


def _series(path: str, number: int) -> tuple[Pattern, s.NewSeries]:
    found = writes.path(path, "a series")
    if len(found.nodes) < 3:
        raise IotdbError(Status.ILLEGAL_PATH, f"{found} is not a series: it needs a device and a measurement")
    return Pattern(found.nodes[:-1], _HERE), s.NewSeries(found.nodes[-1].text, type_of(number), _HERE)


def _check_extras(*given: Any) -> None:
    """Refuse tags, attributes and aliases, if any are named, as the language does."""
    for one in given:
        if one and (not isinstance(one, list) or any(one)):
            raise unsupported("tags, attributes and aliases of series are not supported")
