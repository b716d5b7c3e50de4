"""Spark's JVM as py4j shows it. Only this module uses parts of Spark that Spark does not promise to keep.

``tests/integration/calc/test_prepared.py`` fails if a new version of Spark has changed them; until that test
has been run, another version is refused (``millrace_spark.version``).
"""

from __future__ import annotations

import time
from base64 import standard_b64decode
from collections.abc import Sequence
from importlib.resources import files
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import BYTES_TYPE, register_output_converter  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from calc_svc.spark.heap import Collected
from millrace_spark import require_spark

JVM_OUT_OF_MEMORY = 3
"""The exit code of a JVM that has run out of memory (Java's own, with -XX:+ExitOnOutOfMemoryError)."""
LOOK = 0.5
"""Seconds between two looks whether it has ended; Popen.wait looks twenty times a second."""


def decode_bytes(value: str, gateway: object = None) -> bytes:
    """Bytes from the JVM, which py4j's protocol has in base64."""
    return standard_b64decode(value)


# py4j's own converter makes two Python calls for each byte: 0.3 s for 5 MB, where this takes 0.02 s
register_output_converter(BYTES_TYPE, decode_bytes)


_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The classes of ours that have been compiled in a JVM, by its gateway and their names."""
_COMPILING = Lock()


class Jvm:
    """The JVM of one Spark context. Thread-safe.

    :raises MillraceError: UNAVAILABLE for another version of Spark than the one whose insides are known.
    """

    def __init__(self, context: SparkContext) -> None:
        require_spark("keeping queries planned")
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._jsc: Any = context._jsc.sc()
        self._lists: Any = self._jvm.java.util.ArrayList
        self._sequences: Any = self._jvm.scala.jdk.javaapi.CollectionConverters
        self._objects: dict[str, Any] = {}

    @property
    def _tasks(self) -> Any:
        if "Connections" not in self._objects:
            self._object("Connections").sendAtOnce(self._gateway.java_gateway_server)
        return self._object("OneTask")

    def _object(self, name: str) -> Any:
        """The one object of a Java class of ours that all threads use. It is made when first wanted:
        compiling it takes half a second, for which the first result after a start need not wait."""
        with _COMPILING:
            if name not in self._objects:
                self._objects[name] = self._compiled(name)
            return self._objects[name]

    def _compiled(self, name: str) -> Any:
        """An object of one of our Java classes, whose source lies beside this module."""
        # py4j caches methods by the name of their class: it would call a second class of that name with the
        # methods of the first
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
        """Wait until its process has ended; returns its exit code, or None if it has not ended by then."""
        until = time.monotonic() + seconds
        code: int | None = self._gateway.proc.poll()
        while code is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, LOOK))
            code = self._gateway.proc.poll()
        return code

    def collected(self) -> Collected:
        """What it has collected until now. Waits for a collection that is going on."""
        millis, full, left, most = map(int, self._collections.told().split())
        return Collected(millis / 1000, full, left / most)

    @property
    def _collections(self) -> Any:
        return self._object("Collections")

    def cancel(self, group: str) -> None:
        """Cancel the present and future jobs of a group, and the task of that name."""
        self._jsc.cancelJobGroupAndFutureJobs(group)
        self._tasks.cancel(group)

    def kill(self) -> None:
        """End its process, whatever it does."""
        if self._gateway.proc is not None:
            self._gateway.proc.kill()

    # ------------------------------------------------------------------ relations whose rows change

    def cell(self, frame: DataFrame) -> Any:
        """The array whose one element holds the frame's rows from now on, as an Arrow record batch; None if
        they are not in one place. The frame's rows must have been handed over as an RDD."""
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
        """The frame as a JVM object, and its physical plan (``toString`` tells its nodes)."""
        return frame._jdf, frame._jdf.queryExecution().executedPlan()

    def task(self, jdf: Any, plan: Any, cells: Sequence[Any], properties: Any) -> Any:
        """A task that computes the plan in the thread that asks for it. Its ``run`` takes what to put into
        the cells, a name for :meth:`cancel` and how many bytes it may give, and gives Arrow record batches
        (``OneTask.java``).

        :raises Py4JError: if the plan needs several partitions.
        """
        given = self._lists()
        for cell in cells:
            given.add(cell)
        rdd = jdf.toArrowBatchRdd(self._tasks.inOnePartition(plan))
        return self._tasks.of(rdd, properties, given)

    def properties(self, session: SparkSession) -> Any:
        """The session's settings as tasks read them: Spark hands them over with each of its own jobs."""
        found = self._jvm.java.util.Properties()
        settings = session._jsparkSession.sessionState().conf().getAllConfs()
        found.putAll(self._sequences.asJava(settings))
        return found
