"""Spark's JVM as py4j shows it. What calc-svc uses of Spark without being promised by it is used here alone.

``tests/integration/calc/test_prepared.py`` fails where a new version of Spark has changed it; until that has
been run, another version is refused (``millrace_spark.version``).
"""

from __future__ import annotations

from base64 import standard_b64decode
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from subprocess import TimeoutExpired
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import BYTES_TYPE, register_output_converter  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from calc_svc.spark.heap import Collected
from millrace_spark import require_spark

JVM_OUT_OF_MEMORY = 3
"""With which a JVM ends that has no memory any more (Java's own, with -XX:+ExitOnOutOfMemoryError)."""


def decode_bytes(value: str, gateway: object = None) -> bytes:
    """Bytes that the JVM gives: in base64, as py4j's protocol has them."""
    return standard_b64decode(value)


# py4j's own converter runs two calls of Python for each byte: 0.3 s for 5 MB, where this takes 0.02 s
register_output_converter(BYTES_TYPE, decode_bytes)


_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The classes of ours that a JVM has, by its gateway and their names."""


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
        self._tasks: Any = self._compiled("OneTask")

    def _compiled(self, name: str) -> Any:
        """An object of a class of ours whose source lies beside this module."""
        # py4j keeps the methods of a class by the class's name: a second one of that name would be called by
        # the methods of the first
        known = _COMPILED.setdefault(self._gateway, {})
        if name not in known:
            compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(self._jvm.Thread.currentThread().getContextClassLoader())
            compiler.cook(files("calc_svc.spark").joinpath(f"{name}.java").read_text())
            known[name] = compiler.getClassLoader().loadClass(f"calc_svc.{name}")
        return known[name].newInstance()

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        process = self._gateway.proc
        return process is None or process.poll() is None

    def wait(self, seconds: float) -> int | None:
        """Wait until its process has ended; its exit code. None: it has not, after so long."""
        try:
            return int(self._gateway.proc.wait(seconds))
        except TimeoutExpired:
            return None

    def collected(self) -> Collected:
        """What it has collected until now. Waits for a collection that goes on."""
        millis, full, left, most = map(int, self._collections.told().split())
        return Collected(millis / 1000, full, left / most)

    @cached_property
    def _collections(self) -> Any:
        return self._compiled("Collections")

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group, and those that it is going to have; and the task of that name."""
        self._jsc.cancelJobGroupAndFutureJobs(group)
        self._tasks.cancel(group)

    def kill(self) -> None:
        """End its process, whatever it does."""
        if self._gateway.proc is not None:
            self._gateway.proc.kill()

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

    # ------------------------------------------------------------------ plans

    def plan(self, frame: DataFrame) -> tuple[Any, Any]:
        """The frame in Spark's own words, and its physical plan (``toString`` tells its nodes)."""
        return frame._jdf, frame._jdf.queryExecution().executedPlan()

    def task(self, jdf: Any, plan: Any, cells: Sequence[Any], properties: Any) -> Any:
        """What computes the plan in the thread that asks for it: its ``run`` takes what is to be in the
        cells, its name for :meth:`cancel` and how many bytes it may give, and gives Arrow record batches
        (``OneTask.java``).

        :raises Py4JError: where the plan needs several partitions.
        """
        given = self._lists()
        for cell in cells:
            given.add(cell)
        rdd = jdf.toArrowBatchRdd(self._tasks.inOnePartition(plan))
        return self._tasks.of(rdd, properties, given)

    def properties(self, session: SparkSession) -> Any:
        """What tasks read of the session's settings: Spark hands them over with each of its own jobs."""
        found = self._jvm.java.util.Properties()
        settings = session._jsparkSession.sessionState().conf().getAllConfs()
        found.putAll(self._sequences.asJava(settings))
        return found
