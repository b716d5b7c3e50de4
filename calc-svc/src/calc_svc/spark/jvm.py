"""Spark's JVM as py4j shows it. What calc-svc uses of Spark without being promised by it is used here alone.

``tests/integration/calc/test_prepared.py`` and ``test_shared_job.py`` fail where a new version of Spark has
changed it; until they have been run, another version is refused (``millrace_spark.version``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from millrace_spark import require_spark


class Jvm:
    """The JVM of one Spark context. Thread-safe.

    :raises MillraceError: UNAVAILABLE for another version of Spark than the one whose insides are known.
    """

    def __init__(self, context: SparkContext) -> None:
        require_spark("what keeps queries planned")
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._jsc: Any = context._jsc.sc()
        self._lists: Any = self._jvm.java.util.ArrayList
        self._sequences: Any = self._jvm.scala.jdk.javaapi.CollectionConverters
        self._any: Any = self._jvm.scala.reflect.ClassTag.AnyRef()
        self._none: Any = self._jvm.scala.Option.empty()
        self._threads = threading.local()

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        process = self._gateway.proc
        return process is None or process.poll() is None

    # ------------------------------------------------------------------ relations whose rows change

    def cell(self, frame: DataFrame) -> Any:
        """The array whose one element is the frame's rows from now on, an Arrow record batch; None if they
        are not in one place. The frame must be of rows that were handed over as an RDD."""
        rdd = frame._jdf.queryExecution().analyzed().rdd()
        while rdd.getClass().getSimpleName() != "ParallelCollectionRDD":
            rdd = rdd.dependencies().apply(0).rdd()
        partitions = rdd.partitions()
        if len(partitions) != 1:
            return None
        cell = self._gateway.new_array(self._jvm.byte, 1, 0)
        rows = self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(cell)
        getattr(partitions[0], "values_$eq")(rows)
        return cell

    def fill_from_file(self, cell: Any, path: str) -> None:
        """Put the one record batch of an Arrow stream in place of the cell's rows."""
        self._jvm.PythonSQLUtils.readArrowStreamFromFile(path).copyToArray(cell)

    # ------------------------------------------------------------------ plans

    def plan(self, frame: DataFrame) -> tuple[Any, Any]:
        """The frame in Spark's own words, and its physical plan (``toString`` tells its nodes)."""
        return frame._jdf, frame._jdf.queryExecution().executedPlan()

    def batches(self, jdf: Any, timezone: str) -> Any:
        """The RDD that gives the result as Arrow record batches, each time anew."""
        return jdf.toArrowBatchRdd(-1, timezone, True, False)

    def batches_of_copy(self, jdf: Any, plan: Any) -> Any:
        """The same of a copy of the plan, which has no shuffle files yet."""
        return jdf.toArrowBatchRdd(plan.clone())

    def glommed(self, rdd: Any) -> Any:
        """The RDD with one element, an array of all that it gives."""
        if rdd.getNumPartitions() > 1:  # UNION ALL has two
            rdd = rdd.coalesce(1, False, self._none, None)
        return rdd.glom()

    # ------------------------------------------------------------------ jobs

    def properties(self, session: SparkSession, pool: str) -> Any:
        """What tasks read of the session's settings: Spark hands them over with each of its own jobs."""
        found = self._jvm.java.util.Properties()
        settings = session._jsparkSession.sessionState().conf().getAllConfs()
        found.putAll(self._sequences.asJava(settings))
        found.setProperty("spark.scheduler.pool", pool)
        return found

    @contextmanager
    def job(self, properties: Any) -> Iterator[None]:
        """What this thread submits meanwhile has these settings; Spark does so with each job of its own."""
        self._jsc.setLocalProperties(properties)
        try:
            yield
        finally:
            self._jsc.setLocalProperties(self._own_properties())

    def _own_properties(self) -> Any:
        """This thread's own settings of jobs, which other queries of it may change."""
        if getattr(self._threads, "properties", None) is None:
            self._threads.properties = self._jvm.java.util.Properties()
        return self._threads.properties

    def union(self, rdds: Sequence[Any], tasks: int) -> Any:
        """All of these as one, computed in so many tasks, in order."""
        parts = self._lists()
        for rdd in rdds:
            parts.add(rdd)
        every = self._jsc.union(self._sequences.asScala(parts).toSeq(), self._any)
        return every.coalesce(tasks, False, self._none, None)
