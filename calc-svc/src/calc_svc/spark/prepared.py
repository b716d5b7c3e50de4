"""Queries that Spark plans once and runs again over other rows.

Most of a small job's time goes into planning, and into making it a job: parsing, analysing and optimising the
same text again, shipping a task, fetching what it gives. A :class:`Prepared` keeps the planned query with the
RDDs that Spark made of it, and changes only the bytes in the one partition of each relation. Then it computes
the result as one task, in the JVM thread that was asked. That is sound only if nothing in the plan keeps what
an earlier run has computed. So broadcasts and subqueries are refused, and functions that should give
something else each time.

Whatever of this Spark does not promise is in ``jvm.py`` and ``OneTask.java``.
"""

from __future__ import annotations

import re
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa
import structlog
from cachetools import LRUCache
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from calc_svc.spark import analyses
from calc_svc.spark.jvm import Jvm

INLINE_BYTES = "spark.sql.execution.arrow.localRelationThreshold"
"""The setting for how many bytes of rows become a part of the plan; more become an RDD."""
FREE_OF_STATE = frozenset({
    "CartesianProduct", "Coalesce", "CollectLimit", "Expand", "Filter", "Generate", "GlobalLimit",
    "HashAggregate", "InputAdapter", "LocalLimit", "LocalTableScan", "ObjectHashAggregate", "OneRowRelation",
    "Project", "Range", "Scan", "ShuffledHashJoin", "Sort", "SortAggregate", "SortMergeJoin",
    "TakeOrderedAndProject", "Union", "WholeStageCodegen", "Window", "WindowGroupLimit",
})  # fmt: skip
"""Nodes of physical plans that compute everything anew in each job."""
EXCHANGE = "Exchange"
"""This node keeps its shuffle files. If everything is in one partition it moves nothing, and is left out."""
MOST_BYTES = 2**31 - 1  # of a result, unless the caller says less: more do not fit
BY_VALUE = 64 * 1024  # how many bytes are handed over in a call; more go through a file
_LENGTH = struct.Struct(">i")
_NODE = re.compile(r"[\s:+|-]*(?:\*\(\d+\) )?(\w+)")
_VARIES = re.compile(r"\b(rand|randn|random|uuid|shuffle)\s*\(", re.IGNORECASE)


class NotPrepared(Exception):
    """The query cannot be run again without being planned again."""


class Prepared:
    """One query over relations of fixed columns. One thread at a time runs it."""

    def __init__(
        self, jvm: Jvm, session: SparkSession, sql: str, relations: Mapping[str, pa.Table], timezone: str
    ) -> None:
        """Plan the query. The relations' columns matter for that, their rows do not.

        :raises NotPrepared: if the plan has something that is not free of state.
        :raises PySparkException: what Spark refuses.
        """
        if _VARIES.search(sql):
            raise NotPrepared("it has a function whose result is different each time")
        if analyses.called(sql):
            raise NotPrepared("it calls a function in Python")
        self._jvm = jvm
        self._names = tuple(relations)
        session.conf.set("spark.sql.session.timeZone", timezone)
        session.conf.set(INLINE_BYTES, "0")
        try:
            cells = [self._leaf(session, name, relation) for name, relation in relations.items()]
            frame = session.sql(sql)
            jdf, plan = jvm.plan(frame)
        finally:
            session.conf.unset(INLINE_BYTES)
            for name in relations:
                session.catalog.dropTempView(name)
        _check(plan)
        self._schema = to_arrow_schema(frame.schema, timezone="UTC")
        # the task holds only the RDDs: they need a third of the heap that the plan takes
        self._task = jvm.task(jdf, plan, cells, jvm.properties(session))

    def _leaf(self, session: SparkSession, name: str, relation: pa.Table) -> Any:
        """Register the relation; returns the array whose one element is its rows, an Arrow record batch."""
        # an empty relation would become a part of the plan
        row = relation.slice(0, 1) if relation.num_rows else _one_row(relation.schema)
        frame = session.createDataFrame(row)
        cell = self._jvm.cell(frame)
        if cell is None:
            raise NotPrepared("the rows of a relation are not in one place")
        frame.coalesce(1).createOrReplaceTempView(name)
        return cell

    def run(
        self, relations: Mapping[str, pa.Table], name: str = "", most_bytes: int = MOST_BYTES
    ) -> pa.Table:
        """The result over these rows. ``name``: under which it can be cancelled.

        :raises Py4JError: if it fails, was cancelled, or gives too many bytes.
        """
        with ExitStack() as files:
            given = [_framed(_one_batch(relations[name]), files) for name in self._names]
            found = self._task.run(b"".join(given), name, most_bytes)
        batches, at = [], 0
        while at < len(found):
            (length,) = _LENGTH.unpack_from(found, at)
            at += _LENGTH.size + length
            batch = pa.py_buffer(found).slice(at - length, length)
            batches.append(pa.ipc.read_record_batch(batch, self._schema))
        return pa.Table.from_batches(batches, self._schema)


def _framed(batch: pa.RecordBatch, files: ExitStack) -> bytes:
    """The rows as ``OneTask.run`` takes them. Many rows go through a file, which ``files`` removes later."""
    if batch.nbytes <= BY_VALUE:
        value = batch.serialize()
        return _LENGTH.pack(len(value)) + value.to_pybytes()
    place = files.enter_context(TemporaryDirectory(prefix="millrace-rows-"))
    with pa.ipc.new_stream(f"{place}/rows", batch.schema) as writer:
        writer.write_batch(batch)
    name = f"{place}/rows".encode()
    return _LENGTH.pack(-len(name)) + name


def _one_batch(relation: pa.Table) -> pa.RecordBatch:
    batches = relation.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], relation.schema)


def _one_row(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)


def _check(plan: Any) -> None:
    """:raises NotPrepared: unless each node of the physical plan is known to keep no state."""
    for line in plan.toString().splitlines():
        node = _NODE.match(line)
        name = node[1].removesuffix("Exec") if node else line
        if name != EXCHANGE and name not in FREE_OF_STATE:
            raise NotPrepared(name)


Key = tuple[str, str, str, tuple[tuple[str, pa.Schema], ...]]
"""Kind of session, text, time zone, and the relations' names and columns."""


class Asked(Protocol):
    """What a query runs for. ``name``: under which it can be cancelled; ``most_bytes``: of its result."""

    name: str
    most_bytes: int

    def begin(self) -> None:
        """Its wait for a place is over."""

    def check(self) -> None:
        """:raises PlanError: why it is to end, if it is."""


Borrow = Callable[[], AbstractContextManager[SparkSession]]
"""Gives a session that nobody else uses meanwhile."""


class PreparedQueries:
    """The queries of one pool: a text that comes a second time is prepared. Thread-safe.

    Streams with equal queries share the same text, so there are as many copies of a query as ever ran side by
    side.
    """

    def __init__(self, jvm: Jvm, at_once: int, most: int = 1_000) -> None:
        """``at_once``: how many run side by side; ``most``: how many queries are kept, the most recently used
        ones; each takes some 0.07 MB of Spark's heap."""
        self._jvm, self._most = jvm, most
        self._logger = structlog.get_logger("calc-svc")
        self._room = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._once: LRUCache[int, None] = LRUCache(4 * most)
        self._refused: LRUCache[Key, bool] = LRUCache(4 * most)
        """Those that cannot be prepared."""
        self._free: OrderedDict[Key, list[Prepared]] = OrderedDict()
        """Those that nobody is running. A text may have several copies, which are dropped one by one."""
        self._count = 0

    def run(
        self, kind: str, session: Borrow, sql: str, relations: Mapping[str, pa.Table], timezone: str,
        asked: Asked | None = None,
    ) -> pa.Table | None:  # fmt: skip
        """The result; None if the query must be planned again, like any other.

        It is also None if the query fails: that may be the fault of what is kept; if it is the query's own
        fault, planning it again tells so as for other queries. ``session``: of this ``kind``, borrowed if the
        query is to be prepared; ``asked``: what it runs for, and by which it may be cancelled.
        """
        key = (kind, sql, timezone, tuple((name, table.schema) for name, table in relations.items()))
        prepared, wanted = self._take(key)
        if prepared is None and not wanted:
            return None
        if prepared is None:
            try:
                with session() as one:
                    prepared = Prepared(self._jvm, one, sql, relations, timezone)
            except (NotPrepared, PySparkException) as why:
                self._logger.info("a query is planned each time it runs", sql=sql, reason=str(why))
                self._refuse(key)
                return None
            except Py4JError as error:
                self._logger.warning("a query could not be kept planned", sql=sql, reason=str(error))
                self._refuse(key)
                return None
        try:
            with self._room:
                if asked is None:
                    found = prepared.run(relations)
                else:
                    asked.begin()
                    found = prepared.run(relations, asked.name, asked.most_bytes)
        except (PySparkException, Py4JError):
            return None
        self._keep(key, prepared)
        return found

    def _refuse(self, key: Key) -> None:
        with self._lock:
            self._refused[key] = True

    def _take(self, key: Key) -> tuple[Prepared | None, bool]:
        """The prepared query, which nobody else gets meanwhile; if there is none, whether it should be
        prepared. Texts with constants in them come only once, and so push nothing out."""
        with self._lock:
            if self._refused.get(key):
                return None, False
            if key in self._free:
                copies = self._free[key]
                found = copies.pop()
                self._count -= 1
                if not copies:
                    del self._free[key]
                return found, False
            if hash(key) in self._once:
                return None, True
            self._once[hash(key)] = None
            return None, False

    def _keep(self, key: Key, prepared: Prepared) -> None:
        with self._lock:
            self._free.setdefault(key, []).append(prepared)
            self._free.move_to_end(key)
            self._count += 1
            if self._count > self._most:
                oldest = next(iter(self._free))
                self._free[oldest].pop()
                self._count -= 1
                if not self._free[oldest]:
                    del self._free[oldest]
