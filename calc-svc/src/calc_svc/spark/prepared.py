"""Queries that Spark plans once and runs again over other rows.

Most of a small job's time goes into planning: parsing, analysing and optimising the same text again. A
:class:`Prepared` keeps the planned query with the RDDs that Spark made of it, and changes only the bytes in
the one partition of each relation. That is sound where nothing below keeps what an earlier run has computed,
so broadcasts and subqueries are refused, and functions that shall give something else each time. Of a plan
with exchanges each run takes a copy.

What of that nobody promises is in ``jvm.py``.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from cachetools import LRUCache
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from calc_svc.spark.jvm import Jvm
from calc_svc.spark.shared_job import SharedJobs

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
        self, jvm: Jvm, session: SparkSession, kind: str, sql: str, relations: Mapping[str, pa.Table],
        timezone: str, pool: str,
    ) -> None:  # fmt: skip
        """Plan it; the relations' rows are of no importance, their columns are. ``kind``: the session's.

        :raises NotPrepared: where the plan has something that is not free of state.
        :raises PySparkException: what Spark refuses.
        """
        if _VARIES.search(sql):
            raise NotPrepared("it has a function that gives something else each time")
        self._jvm = jvm
        self.settings = kind, timezone
        self._cells: dict[str, Any] = {}
        session.conf.set("spark.sql.session.timeZone", timezone)
        session.conf.set(INLINE_BYTES, "0")
        try:
            for name, relation in relations.items():
                self._cells[name] = self._leaf(session, name, relation)
            frame = _planned(jvm, session, sql)
        finally:
            session.conf.unset(INLINE_BYTES)
            for name in relations:
                session.catalog.dropTempView(name)
        jdf, plan = jvm.plan(frame)
        self._copied = EXCHANGE in _nodes(plan)
        # the RDDs need a third of the heap that the plan takes
        self._jdf: Any = jdf if self._copied else None
        self._plan: Any = plan if self._copied else None
        self._schema = to_arrow_schema(frame.schema, timezone="UTC")
        self._rdd: Any = None
        self._parts: Any = None
        if not self._copied:
            self._rdd = jvm.batches(jdf, timezone)
            self._parts = jvm.glommed(self._rdd)
        # a copy's exchanges are stages of their own; what is known to have no rows has no partition
        self.shares = not self._copied and self._parts.getNumPartitions() == 1
        self.properties = jvm.properties(session, pool)

    def _leaf(self, session: SparkSession, name: str, relation: pa.Table) -> Any:
        """Register the relation: the array whose one element is its rows, an Arrow record batch."""
        # an empty one would become a part of the plan
        row = relation.slice(0, 1) if relation.num_rows else _one_row(relation.schema)
        frame = session.createDataFrame(row)
        cell = self._jvm.cell(frame)
        if cell is None:
            raise NotPrepared("the rows of a relation are not in one place")
        frame.coalesce(1).createOrReplaceTempView(name)
        return cell

    def run(self, relations: Mapping[str, pa.Table], jobs: SharedJobs, alone: bool = False) -> pa.Table:
        """The result over these rows. ``alone``: by a job of its own."""
        many = [name for name, relation in relations.items() if self._fill(self._cells[name], relation)]
        found = jobs.collect(self, alone)
        for name in many:  # they would fill the heap until the next run
            self._cells[name][0] = b""
        batches = [pa.ipc.read_record_batch(pa.py_buffer(batch), self._schema) for batch in found]
        return pa.Table.from_batches(batches, self._schema)

    def batches(self) -> Any:
        """See :class:`calc_svc.spark.shared_job.Query`."""
        return self._jvm.batches_of_copy(self._jdf, self._plan) if self._copied else self._rdd

    def parts(self) -> Any:
        """See :class:`calc_svc.spark.shared_job.Query`."""
        return self._parts

    def _fill(self, cell: Any, relation: pa.Table) -> bool:
        """Put the rows in place of the last ones; whether they are many."""
        batch = _one_batch(relation)
        if batch.nbytes <= BY_VALUE:
            cell[0] = batch.serialize().to_pybytes()
            return False
        with tempfile.NamedTemporaryFile(prefix="millrace-rows-") as file:
            with pa.ipc.new_stream(file.name, batch.schema) as writer:
                writer.write_batch(batch)
            self._jvm.fill_from_file(cell, file.name)
        return True


def _planned(jvm: Jvm, session: SparkSession, sql: str) -> DataFrame:
    """The query, as one task if that can be.

    All relations have one partition. But above a join of two of them Spark takes the rows for spread in two
    ways at once, and puts exchanges there that nothing needs. A hint at each subquery tells it.
    """
    try:
        hinted = session.sql(_SUBQUERY.sub(_hinted, sql))
        if EXCHANGE not in _nodes(jvm.plan(hinted)[1]):
            return hinted
    except (NotPrepared, PySparkException):
        pass  # a place where no hint may stand; without it Spark says what is wrong, if anything is
    return session.sql(sql)


def _hinted(found: re.Match[str]) -> str:
    return "(SELECT /*+ COALESCE(1) */ " if found[0] == "(SELECT " else found[0]


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


Borrow = Callable[[], AbstractContextManager[SparkSession]]
"""Gives a session that nobody else uses meanwhile."""


class PreparedQueries:
    """The queries of one pool: a text that comes a second time is prepared. Thread-safe.

    Streams whose queries read alike have the same text, so there are as many copies of a query as were ever
    run side by side.
    """

    def __init__(self, pool: str, jvm: Jvm, jobs: SharedJobs, most: int = 1_000) -> None:
        """``most``: queries that are kept, the ones used last; each takes some 0.07 MB of Spark's heap."""
        self._pool, self._jvm, self._jobs, self._most = pool, jvm, jobs, most
        self._lock = threading.Lock()
        self._once: LRUCache[int, None] = LRUCache(4 * most)
        self._alone: LRUCache[int, None] = LRUCache(4 * most)
        """Those that failed: others should not have to run again for them."""
        self._refused: LRUCache[Key, bool] = LRUCache(4 * most)
        """Those that cannot be prepared."""
        self._free: OrderedDict[Key, list[Prepared]] = OrderedDict()
        """Those that nobody runs. A text has several copies, which go one by one."""
        self._count = 0

    def run(
        self, kind: str, session: Borrow, sql: str, relations: Mapping[str, pa.Table], timezone: str
    ) -> pa.Table | None:
        """The result; None where the query must be planned again, as any other.

        That is so too where it fails: it may be the fault of what is kept, and planned again it tells of its
        own fault as other queries do. ``session``: of this ``kind``, borrowed where the query is prepared.
        """
        key = (kind, sql, timezone, tuple((name, table.schema) for name, table in relations.items()))
        prepared, wanted = self._take(key)
        if prepared is None and not wanted:
            return None
        if prepared is None:
            try:
                with session() as one:
                    prepared = Prepared(self._jvm, one, kind, sql, relations, timezone, self._pool)
            except (NotPrepared, PySparkException, Py4JError):
                with self._lock:
                    self._refused[key] = True
                return None
        try:
            found = prepared.run(relations, self._jobs, hash(key) in self._alone)
        except (PySparkException, Py4JError):
            with self._lock:
                self._alone[hash(key)] = None
            return None
        self._keep(key, prepared)
        return found

    def _take(self, key: Key) -> tuple[Prepared | None, bool]:
        """The prepared query, which nobody else gets now; else whether it should be prepared. Texts with
        constants in them come once: they push nothing out."""
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
