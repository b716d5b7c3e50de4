"""The peer: the same windowed count by plain Spark Structured Streaming, in a process of its own.

Run with one JSON argument, see :class:`Job`. Prints one JSON line for each micro-batch that read messages.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming import StreamingQueryListener

from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.query import SINK, SOURCE
from trigger_svc.spark.session import COMPILED, start_session

ROW = "ts: BIGINT, v: INT"


@dataclass(frozen=True)
class Job:
    """From a topic at offsets (partition -> offset) to a topic; ``width``: seconds of a window."""

    broker: str
    jars_dir: str
    folder: str
    source: str
    offsets: dict[str, int]
    sink: str
    width: int
    per_message: int

    def text(self) -> str:
        """The argument of the process."""
        return json.dumps(asdict(self))


def counted(messages: DataFrame, job: Job) -> DataFrame:
    """Rows in each closed window of each key, as Kafka messages ``{"start": ms, "n": count}``."""
    value = F.col("value").cast("string")
    if job.per_message == 1:
        rows = messages.select("key", F.from_json(value, f"STRUCT<{ROW}>").alias("row"))
    else:
        several = F.from_json(value, f"ARRAY<STRUCT<{ROW}>>")
        rows = messages.select("key", F.explode(several).alias("row"))
    start = F.unix_millis("window.start")
    return (
        rows.select("key", F.timestamp_millis("row.ts").alias("at"))
        .withWatermark("at", "0 seconds")
        .groupBy("key", F.window("at", f"{job.width} seconds"))
        .count()
        .select("key", F.to_json(F.struct(start.alias("start"), F.col("count").alias("n"))).alias("value"))
    )


class Progress(StreamingQueryListener):  # type: ignore[misc]  # pyspark is not typed here
    """Prints for each micro-batch that read something when it began, how long it took, how many messages it
    read, and in how many partitions its state is."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to tell."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to tell."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to tell: the process ends."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """One line."""
        told = json.loads(event.progress.json)
        if told["numInputRows"]:
            took = told["durationMs"]["triggerExecution"]
            (state,) = told["stateOperators"]
            line = {
                "messages": told["numInputRows"],
                "began": told["timestamp"],
                "ms": took,
                "partitions": state["numShufflePartitions"],
            }
            print(json.dumps(line), flush=True)


def run(job: Job) -> None:
    """Runs until the process is ended."""
    settings = TriggerSettings(broker=job.broker, jars_dir=Path(job.jars_dir), data_dir=Path(job.folder))
    session: SparkSession = start_session(settings)
    # trigger-svc interprets its small batches; this query works row by row
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    # trigger-svc has no shuffle of Spark's to set this for; the default of 200 would be 200 tasks a batch
    session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
    session.streams.addListener(Progress())
    kafka = {"kafka.bootstrap.servers": job.broker}
    source: Mapping[str, str] = SOURCE | {
        "subscribe": job.source,
        "startingOffsets": json.dumps({job.source: job.offsets}),
    }
    messages = session.readStream.format("kafka").options(**source, **kafka).load()
    query = (
        counted(messages, job)
        .writeStream.format("kafka")
        .options(**SINK, **kafka)
        .option("topic", job.sink)
        .option("checkpointLocation", str(Path(job.folder) / "checkpoint"))
        .outputMode("append")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    run(Job(**json.loads(sys.argv[1])))
