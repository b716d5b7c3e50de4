"""How a service's Spark session begins."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from millrace_spark.place import SparkSettings

COMMON: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # TCP's delayed acknowledgements cost each Python stage 40 ms
    "spark.python.unix.domain.socket.enabled": "true",
    # it walks the stack at every call
    "spark.python.sql.dataFrameQueryContext.enabled": "false",
}
"""What both services want alike."""


def spark_conf(
    settings: SparkSettings, heap: str, conf: Mapping[str, str], jars: bool = False
) -> dict[str, str]:
    """All settings of a session: the common ones, those of the place, and the service's own ``conf``.

    ``jars``: whether the service needs those on the class path.
    """
    place = {
        "spark.driver.memory": heap,
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.bindAddress": settings.spark_driver_bind_address,
    }
    if jars:
        # not spark.jars: a file system among them is needed before those are loaded
        place["spark.driver.extraClassPath"] = settings.driver_jars
        place["spark.executor.extraClassPath"] = settings.spark_executor_jars or settings.driver_jars
    return {**COMMON, **place, **conf}


def start_spark(
    settings: SparkSettings, name: str, threads: int, heap: str, conf: Mapping[str, str], *,
    workers: Mapping[str, str], jars: bool = False,
) -> SparkSession:  # fmt: skip
    """Start the one session of this process. ``threads``: with which it computes where Spark is local;
    ``heap``: of its JVM, as Spark writes sizes; ``conf`` and ``jars``: see :func:`spark_conf`; ``workers``:
    environment of Python workers, and of this process."""
    # workers are forked by the JVM and inherit these
    os.environ |= {**workers, "PYSPARK_PYTHON": settings.executor_python}
    os.environ.setdefault("SPARK_LOCAL_IP", settings.spark_driver_bind_address)
    builder = SparkSession.builder.master(settings.master(threads)).appName(name)
    for key, value in spark_conf(settings, heap, conf, jars).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
