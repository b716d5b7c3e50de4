"""How Spark starts in calc-svc's processes. A process begins with this, before it loads anything else: the
JVM takes seconds to come up, and Python as long to load the rest."""

from __future__ import annotations

from collections.abc import Mapping

from calc_svc.settings import CalcSettings
from millrace_service import load_settings
from millrace_spark import JVM, SparkSettings, SparkStart

# otherwise, out of memory, Spark's threads would die one by one, and what waits for them would wait for ever
_OPTIONS = "-Duser.timezone=UTC -Xss32m -XX:+ExitOnOutOfMemoryError"
SETTINGS: dict[str, str] = {
    JVM: f"{_OPTIONS} -XX:+UseSerialGC",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.crossJoin.enabled": "true",
    "spark.python.daemon.module": "calc_svc.spark.daemon",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
IMPATIENT: dict[str, str] = {
    JVM: f"{_OPTIONS} -XX:+UseParallelGC -XX:ParallelGCThreads=2 -XX:GCTimeLimit=80 -XX:GCHeapFreeLimit=10"
}
"""For a JVM that counts as out of memory if it does little but look for some: that could go on for minutes,
and hold up whatever else runs there."""


def for_streams(settings: CalcSettings) -> SparkStart:
    """Spark that calculates for streams."""
    return new_spark(settings.calc_spark_cores, settings.calc_spark_memory, _most(settings), settings)


def for_queries(settings: CalcSettings) -> SparkStart:
    """Spark that runs users' queries."""
    conf = IMPATIENT | _most(settings)
    return new_spark(settings.calc_spark_cores, settings.calc_query_memory, conf, settings)


def new_spark(
    cores: int = 2, memory: str = "1g", conf: Mapping[str, str] | None = None,
    settings: SparkSettings | None = None,
) -> SparkStart:  # fmt: skip
    """``conf``: more of Spark's settings; ``settings``: where Spark runs (None: as the environment says)."""
    return SparkStart(
        settings or load_settings(SparkSettings), "millrace-calc", cores, memory,
        SETTINGS | {"spark.sql.shuffle.partitions": str(cores), **(conf or {})},
        # there are few Python workers, but each one's algorithms would take all cores
        workers={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def _most(settings: CalcSettings) -> dict[str, str]:
    return {"spark.driver.maxResultSize": str(settings.calc_result_bytes)}
