"""Queries that Spark plans once and runs again over other rows.

Most of a small job's time goes into planning: parsing, analysing and optimising the same text again. A
:class:`Prepared` keeps the planned query with the RDDs that Spark made of it, and changes only the bytes in
the one partition of each relation. That is sound where nothing below keeps what an earlier run has computed,
so broadcasts and subqueries are refused, and functions that shall give something else each time. Of a plan
with exchanges each run takes a copy.

What is used of Spark without being promised by it is used in this module alone:
``tests/integration/calc/test_prepared.py`` fails where a new version of Spark has changed it.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

INLINE_BYTES = "spark.sql.execution.arrow.localRelationThreshold"
"""Rows of at most so many bytes become a part of the plan, more become an RDD."""
FREE_OF_STATE = frozenset({
    "CartesianProduct", "Coalesce", "CollectLimit", "Expand", "Filter", "Generate", "GlobalLimit",
    "HashAggregate", "InputAdapter", "LocalLimit", "LocalTableScan", "ObjectHashAggregate", "OneRowRelation",
    "Project", "Range", "Scan", "ShuffledHashJoin", "Sort", "SortAggregate", "SortMergeJoin",
    "TakeOrderedAndProject", "Union", "WholeStageCodegen", "Window", "WindowGroupLimit",
})  # fmt: skip
"""Nodes of physical plans that compute everything anew in each job."""
EXCHANGE = "Exchange"
"""Keeps its shuffle files. A copy of the plan has none yet, and takes much less than planning."""
BY_VALUE = 64 * 1024  # bytes that are handed over in a call; more go through a file
_NODE = re.compile(r"[\s:+|-]*(?:\*\(\d+\) )?(\w+)")
_SUBQUERY = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\(SELECT ")
"""The beginning of a subquery; texts and names are found too, so that none is looked for in them."""
_VARIES = re.compile(r"\b(rand|randn|random|uuid|shuffle)\s*\(", re.IGNORECASE)


class NotPrepared(Exception):
    """The query cannot be run again without being planned again."""


class Prepared:
    """One query over relations of fixed columns. One thread at a time runs it."""

    def __init__(
        self, session: SparkSession, sql: str, relations: Mapping[str, pa.Table], timezone: str, pool: str
    ) -> None:
        """Plan it; the relations' rows are of no importance, their columns are.

        :raises NotPrepared: where the plan has something that is not free of state.
        :raises PySparkException: what Spark refuses.
        """
        if _VARIES.search(sql):
            raise NotPrepared("it has a function that gives something else each time")
        context = session.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway
        self._jsc = context._jsc.sc()
        self._cells: dict[str, Any] = {}
        session.conf.set("spark.sql.session.timeZone", timezone)
        session.conf.set(INLINE_BYTES, "0")
        try:
            for name, relation in relations.items():
                self._cells[name] = self._leaf(session, name, relation)
            frame = _planned(session, sql)
        finally:
            session.conf.unset(INLINE_BYTES)
            for name in relations:
                session.catalog.dropTempView(name)
        self._jdf = frame._jdf
        self._plan = self._jdf.queryExecution().executedPlan()
        self._copied = EXCHANGE in _nodes(self._plan)
        self._schema = to_arrow_schema(frame.schema, timezone="UTC")
        self._rdd: Any = None if self._copied else self._jdf.toArrowBatchRdd(-1, timezone, True, False)
        self._properties = self._settings(session, pool)

    def _leaf(self, session: SparkSession, name: str, relation: pa.Table) -> Any:
        """Register the relation: the array whose one element is its rows, an Arrow record batch."""
        # an empty one would become a part of the plan
        row = relation.slice(0, 1) if relation.num_rows else _one_row(relation.schema)
        frame = session.createDataFrame(row)
        rdd = frame._jdf.queryExecution().analyzed().rdd()
        while rdd.getClass().getSimpleName() != "ParallelCollectionRDD":
            rdd = rdd.dependencies().apply(0).rdd()
        partitions = rdd.partitions()
        if len(partitions) != 1:
            raise NotPrepared("the rows of a relation are not in one place")
        cell = self._gateway.new_array(self._jvm.byte, 1, 0)
        rows = self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(cell)
        getattr(partitions[0], "values_$eq")(rows)
        frame.coalesce(1).createOrReplaceTempView(name)
        return cell

    def _settings(self, session: SparkSession, pool: str) -> Any:
        """What tasks read of the session's settings: Spark hands them over with each of its own jobs."""
        found = self._jvm.java.util.Properties()
        settings = session._jsparkSession.sessionState().conf().getAllConfs()
        found.putAll(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(settings))
        found.setProperty("spark.scheduler.pool", pool)
        return found

    def run(self, relations: Mapping[str, pa.Table]) -> pa.Table:
        """The result over these rows."""
        many = [name for name, relation in relations.items() if self._fill(self._cells[name], relation)]
        self._jsc.setLocalProperties(self._properties)
        try:
            rdd = self._jdf.toArrowBatchRdd(self._plan.clone()) if self._copied else self._rdd
            found = rdd.collect()
        finally:
            self._jsc.setLocalProperties(_own_properties(self._jvm))
        for name in many:  # they would fill the heap until the next run
            self._cells[name][0] = b""
        batches = [pa.ipc.read_record_batch(pa.py_buffer(bytes(part)), self._schema) for part in found]
        return pa.Table.from_batches(batches, self._schema)

    def _fill(self, cell: Any, relation: pa.Table) -> bool:
        """Put the rows in place of the last ones; whether they are many."""
        batch = _one_batch(relation)
        if batch.nbytes <= BY_VALUE:
            cell[0] = batch.serialize().to_pybytes()
            return False
        with tempfile.NamedTemporaryFile(prefix="millrace-rows-") as file:
            with pa.ipc.new_stream(file.name, batch.schema) as writer:
                writer.write_batch(batch)
            self._jvm.PythonSQLUtils.readArrowStreamFromFile(file.name).copyToArray(cell)
        return True


def _planned(session: SparkSession, sql: str) -> DataFrame:
    """The query, as one task if that can be.

    All relations have one partition. But above a join of two of them Spark takes the rows for spread in two
    ways at once, and puts exchanges there that nothing needs. A hint at each subquery tells it.
    """
    try:
        hinted = session.sql(_SUBQUERY.sub(_hinted, sql))
        if EXCHANGE not in _nodes(hinted._jdf.queryExecution().executedPlan()):
            return hinted
    except (NotPrepared, PySparkException):
        pass  # a place where no hint may stand; without it Spark says what is wrong, if anything is
    return session.sql(sql)


def _hinted(found: re.Match[str]) -> str:
    return "(SELECT /*+ COALESCE(1) */ " if found[0] == "(SELECT " else found[0]


_threads = threading.local()


def _own_properties(jvm: Any) -> Any:
    """This thread's own settings of jobs, which other queries of it may change."""
    if getattr(_threads, "jvm", None) is not jvm:
        _threads.jvm, _threads.properties = jvm, jvm.java.util.Properties()
    return _threads.properties


def _one_batch(relation: pa.Table) -> pa.RecordBatch:
    batches = relation.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], relation.schema)


def _one_row(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)


def _nodes(plan: Any) -> set[str]:
    """The kinds of nodes of a physical plan.

    :raises NotPrepared: unless every one is known to keep nothing, or no more than its copy has.
    """
    found = set()
    for line in plan.toString().splitlines():
        node = _NODE.match(line)
        name = node[1].removesuffix("Exec") if node else line
        if name != EXCHANGE and name not in FREE_OF_STATE:
            raise NotPrepared(name)
        found.add(name)
    return found


Key = tuple[str, str, str, tuple[tuple[str, pa.Schema], ...]]
"""Kind of session, text, time zone, and the relations' names and columns."""


class PreparedQueries:
    """The queries of one pool: a text that comes a second time is prepared. Thread-safe."""

    def __init__(self, pool: str, most: int = 200) -> None:
        """``most``: queries that are kept, the ones used last."""
        self._pool, self._most = pool, most
        self._lock = threading.Lock()
        self._once: OrderedDict[int, None] = OrderedDict()
        self._free: OrderedDict[Key, Prepared | None] = OrderedDict()
        """Those that nobody runs; None: those that cannot be prepared."""

    def run(
        self, kind: str, session: SparkSession, sql: str, relations: Mapping[str, pa.Table], timezone: str
    ) -> pa.Table | None:
        """The result; None where the query must be planned again, as any other.

        That is so too where it fails: it may be the fault of what is kept, and planned again it tells of its
        own fault as other queries do. ``session``: of this ``kind``, used by the caller alone.
        """
        key = (kind, sql, timezone, tuple((name, table.schema) for name, table in relations.items()))
        prepared, wanted = self._take(key)
        if prepared is None and not wanted:
            return None
        try:
            prepared = prepared or Prepared(session, sql, relations, timezone, self._pool)
        except (NotPrepared, PySparkException, Py4JError):
            self._keep(key, None)
            return None
        try:
            found = prepared.run(relations)
        except (PySparkException, Py4JError):
            return None
        self._keep(key, prepared)
        return found

    def _take(self, key: Key) -> tuple[Prepared | None, bool]:
        """The prepared query, which nobody else gets now; else whether it should be prepared. Texts with
        constants in them come once: they push nothing out."""
        with self._lock:
            if key in self._free:
                found = self._free.pop(key)
                if found is None:
                    self._free[key] = None
                return found, False
            if hash(key) in self._once:
                return None, True
            self._once[hash(key)] = None
            if len(self._once) > 4 * self._most:
                self._once.popitem(last=False)
            return None, False

    def _keep(self, key: Key, prepared: Prepared | None) -> None:
        with self._lock:
            self._free[key] = prepared
            self._free.move_to_end(key)
            if len(self._free) > self._most:
                self._free.popitem(last=False)
