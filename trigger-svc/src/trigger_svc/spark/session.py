"""The Spark session of the trigger query: small, loopback only, tuned for short micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from millrace_core.errors import ErrorCode, MillraceError
from millrace_spark import JVM, SparkStart
from trigger_svc.settings import TriggerSettings

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

CONF: dict[str, str] = {
    # on few cores, the collector that needs the least. Spark matches texts of failures with a regular
    # expression that needs a deep stack
    JVM: "-XX:+UseSerialGC -Xss4m -XX:+ExitOnOutOfMemoryError",
    "spark.locality.wait": "0",
    # what logs and plans must not show: Spark's default words, and the texts with which Kafka clients log in
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
    # compiling costs more than it saves on few messages
    **INTERPRETED,
    # Spark's own daemon would begin by compiling Spark's archives
    "spark.python.daemon.module": "trigger_svc.spark.daemon",
    # a limit on bytes is checked against all vectors after each message, which takes a quarter of a task's
    # time. So there is none (the greatest number), and 64-bit offsets for however many bytes come together
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # the default implementation forks readlink twice for every commit
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    # Hadoop's own implementation forks chmod for every file that it makes: six times a batch
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # what a batch broadcasts (its tasks) is small; the default block size zeroes 4 MB each time
    "spark.broadcast.blockSize": "64k",
    "spark.broadcast.compress": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # the largest batch that the driver takes; a larger one goes to workers
    "spark.driver.maxResultSize": "128m",
    "spark.sql.streaming.numRecentProgressUpdates": "300",
    # records fetched ahead from a dropped topic must not be taken for those of a new one with its name
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    # each partition that has messages gets a consumer: with the default of 64, a hundred tables would make
    # theirs anew in every batch. A consumer takes 0.2 MB of heap, and is closed after five idle minutes
    "spark.kafka.consumer.cache.capacity": "1024",
}


def require_jars(settings: TriggerSettings) -> None:
    """:raises MillraceError: UNAVAILABLE if the jars that Spark needs are not there."""
    if not settings.driver_jars:
        raise MillraceError(
            ErrorCode.UNAVAILABLE,
            f"the jars of Spark's Kafka connector are missing from {settings.jars_dir / 'spark'}: "
            "run `make jars`",
        )


def start_session(settings: TriggerSettings) -> SparkSession:
    """Start Spark; :raises MillraceError: as :func:`require_jars`."""
    require_jars(settings)
    # the session's scratch files go under the data folder, whose disk is meant for that
    scratch = settings.data_dir.absolute() / "spark-trigger"
    own = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.streaming.pollingDelay": f"{settings.trigger_poll_ms}ms",
    }
    start = SparkStart(
        settings, "trigger-svc", settings.trigger_threads, settings.trigger_heap, CONF | own, jars=True,
        # a slot is evaluated by one thread
        workers={"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    session = start.session()
    session.sparkContext.setLogLevel("WARN")
    return session


@contextmanager
def compiled(session: SparkSession) -> Iterator[None]:
    """What is planned meanwhile is compiled: that pays if there are many messages to go through."""
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in INTERPRETED.items():
            session.conf.set(name, value)
