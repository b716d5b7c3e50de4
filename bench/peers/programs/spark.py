"""The jobs by plain Spark Structured Streaming. Runs in an environment of its own, with one JSON argument."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

ROW = "STRUCT<ts: BIGINT, v: INT>"
EVENT = "device STRING, start BIGINT, last BIGINT, n BIGINT, hi INT"


def session_of(told: dict[str, Any]) -> SparkSession:
    """A session with the settings that it is told."""
    builder = SparkSession.builder.appName("peer").master(f"local[{told['cores']}]")
    for name, text in told["conf"].items():
        builder = builder.config(name, text)
    session = (
        builder.config("spark.driver.memory", told["heap"])
        .config("spark.driver.extraClassPath", told["class_path"])
        .config("spark.local.dir", told["folder"])
        .config("spark.sql.warehouse.dir", f"{told['folder']}/warehouse")
        .config("spark.sql.shuffle.partitions", str(told["cores"]))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    return session


def rows(session: SparkSession, told: dict[str, Any], source: str) -> DataFrame:
    """device, ts, v and ``at``, which carries the watermark."""
    options = told["source_options"] | {
        "subscribe": source,
        "startingOffsets": "earliest",
        "kafka.bootstrap.servers": told["broker"],
    }
    # a task per core, however many partitions have news, as trigger-svc does
    messages = session.readStream.format("kafka").options(**options).load().coalesce(told["cores"])
    value = F.col("value").cast("string")
    device = F.col("key").cast("string").alias("device")
    if told["per_message"] == 1:
        found = messages.select(device, F.from_json(value, ROW).alias("row"))
    else:
        found = messages.select(device, F.explode(F.from_json(value, f"ARRAY<{ROW}>")).alias("row"))
    at = F.timestamp_millis("row.ts").alias("at")
    return found.select("device", "row.ts", "row.v", at).withWatermark(
        "at", f"{told['disorder_ms']} milliseconds"
    )


def tumbling(found: DataFrame, job: dict[str, Any]) -> DataFrame:
    """Average, least and greatest value of each window."""
    window = F.window("at", f"{job['width_ms']} milliseconds")
    results = found.groupBy("device", window).agg(
        F.avg("v").alias("a"), F.min("v").alias("lo"), F.max("v").alias("hi")
    )
    return results.select("device", F.unix_millis("window.start").alias("start"), "a", "lo", "hi")


def session(found: DataFrame, job: dict[str, Any]) -> DataFrame:
    """Rows of each session."""
    window = F.session_window("at", f"{job['gap_ms']} milliseconds")
    results = found.groupBy("device", window).agg(
        F.min("ts").alias("start"), F.max("ts").alias("last"), F.count("*").alias("n")
    )
    return results.select("device", "start", "last", "n")


def event(found: DataFrame, job: dict[str, Any]) -> DataFrame:
    """Rows and greatest value of each event. Spark has no such window: state of its own for each device."""
    high, low = job["high"], job["low"]

    def cut(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        start, count, highest = state.get if state.exists else (-1, 0, 0)
        own = pd.concat(list(frames)).sort_values("ts", kind="stable")
        ended = []
        for ts, v in zip(own["ts"].tolist(), own["v"].tolist(), strict=True):
            if start < 0:
                if v < high:
                    continue
                start, count, highest = ts, 0, v
            count, highest = count + 1, max(highest, v)
            if v < low:
                ended.append((key[0], start, ts, count, highest))
                start = -1
        state.update((start, count, highest))
        if ended:
            yield pd.DataFrame(ended, columns=["device", "start", "last", "n", "hi"])

    return found.groupBy("device").applyInPandasWithState(
        cut, EVENT, "start BIGINT, n BIGINT, hi INT", "append", GroupStateTimeout.NoTimeout
    )


JOBS = {"tumbling": tumbling, "session": session, "event": event}


def main(told: dict[str, Any]) -> None:
    """Runs until the process is ended."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session_of(told)
    for stream in range(told["streams"]):
        source = told["sources"][stream % len(told["sources"])]
        results = JOBS[told["job"]["shape"]](rows(spark, told, source), told["job"])
        value = F.to_json(F.struct(F.lit(stream).alias("stream"), *results.columns)).alias("value")
        (
            results.select(F.col("device").alias("key"), value)
            .writeStream.format("kafka")
            .options(
                **told["sink_options"], **{"kafka.bootstrap.servers": told["broker"], "topic": told["sink"]}
            )
            .option("checkpointLocation", f"{told['folder']}/checkpoint-{stream}")
            .outputMode("append")
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
