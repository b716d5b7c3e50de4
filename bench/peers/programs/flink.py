"""The jobs by Flink SQL. Runs in an environment of its own, with one JSON argument."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "table.local-time-zone": "UTC",
    "pipeline.auto-watermark-interval": "20 ms",
    "pipeline.object-reuse": "true",
    "execution.buffer-timeout.interval": "5 ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "restart-strategy.type": "disable",
    # a job that is held is not dead
    "heartbeat.timeout": "1200000",
    "execution.checkpointing.timeout": "20 min",
}
KAFKA = {"connector": "kafka", "properties.request.timeout.ms": "30000"}
SOURCE = {
    "scan.startup.mode": "earliest-offset",
    "key.format": "raw",
    "key.fields": "device",
    "value.format": "json",
    "value.fields-include": "EXCEPT_KEY",
    "properties.fetch.max.wait.ms": "10",
    "properties.max.poll.records": "20000",
    "properties.receive.buffer.bytes": "1048576",
}
SINK = {
    "format": "json",
    "sink.delivery-guarantee": "at-least-once",
    "properties.acks": "all",
    "properties.linger.ms": "0",
    "properties.compression.type": "lz4",
}
COLUMNS = {
    "tumbling": "a DOUBLE, lo INT, hi INT",
    "session": "`last` BIGINT, n BIGINT",
    "event": "`last` BIGINT, n BIGINT, hi INT",
}
EPOCH = "TIMESTAMP '1970-01-01 00:00:00'"
JOBS = {
    "tumbling": f"""
        SELECT {{stream}}, device, 1000 * CAST(TIMESTAMPDIFF(SECOND, {EPOCH}, window_start) AS BIGINT),
               AVG(CAST(v AS DOUBLE)), MIN(v), MAX(v)
        FROM TABLE(TUMBLE(TABLE source{{table}}, DESCRIPTOR(rt), INTERVAL '{{width}}' SECOND(9)))
        GROUP BY device, window_start, window_end""",
    "session": """
        SELECT {stream}, device, MIN(ts), MAX(ts), COUNT(*)
        FROM TABLE(SESSION(
          TABLE source{table} PARTITION BY device, DESCRIPTOR(rt), INTERVAL '{gap}' SECOND(9)))
        GROUP BY device, window_start, window_end""",
    "event": """
        SELECT {stream}, device, began, ended, n,
               CAST(GREATEST(first_v, COALESCE(between_v, first_v), last_v) AS INT)
        FROM source{table} MATCH_RECOGNIZE (
          PARTITION BY device ORDER BY rt
          MEASURES FIRST(A.ts) AS began, LAST(Z.ts) AS ended, COUNT(A.v) + COUNT(B.v) + COUNT(Z.v) AS n,
                   MAX(A.v) AS first_v, MAX(B.v) AS between_v, MAX(Z.v) AS last_v
          ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
          PATTERN (A B* Z)
          DEFINE A AS A.v >= {high}, B AS B.v >= {low}, Z AS Z.v < {low})""",
}


def options(*given: dict[str, str]) -> str:
    """The options of a table as SQL."""
    merged = {name: text for one in given for name, text in one.items()}
    return ", ".join(f"'{name}' = '{text}'" for name, text in merged.items())


def interval(milliseconds: int) -> str:
    """A time span as SQL; less than 100 days."""
    seconds, rest = divmod(milliseconds, 1000)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    return f"INTERVAL '{days} {hours % 24:02}:{minutes % 60:02}:{seconds % 60:02}.{rest:03}' DAY TO SECOND"


def environment(told: dict[str, Any]) -> TableEnvironment:
    """A local cluster with as many slots as cores."""
    found = Configuration()
    own = {
        "parallelism.default": str(told["cores"]),
        "pipeline.jars": f"file://{told['jar']}",
        "execution.checkpointing.interval": f"{told['commit_seconds']} s",
        "execution.checkpointing.dir": f"file://{told['checkpoints']}",
        "io.tmp.dirs": told["folder"],
    }
    if told["restore"]:
        own["execution.state-recovery.path"] = f"file://{told['restore']}"
    for name, text in (SETTINGS | own).items():
        found.set_string(name, text)
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(found).build()
    )


def main(told: dict[str, Any]) -> None:
    """Runs until the process is ended."""
    tables, job = environment(told), told["job"]
    broker = {"properties.bootstrap.servers": told["broker"]}
    # by a millisecond more: rows of the same time must not be late
    lag = interval(told["disorder_ms"] + 1)
    for number, topic in enumerate(told["sources"]):
        named = {"topic": topic, "properties.group.id": f"flink-{number}"}
        tables.execute_sql(
            f"CREATE TABLE source{number} (device STRING, ts BIGINT, v INT, rt AS TO_TIMESTAMP_LTZ(ts, 3),"
            f" WATERMARK FOR rt AS rt - {lag})"
            f" WITH ({options(KAFKA, SOURCE, broker, named)})"
        )
    columns = f"`stream` INT, device STRING, `start` BIGINT, {COLUMNS[job['shape']]}"
    tables.execute_sql(
        f"CREATE TABLE sink ({columns}) WITH ({options(KAFKA, SINK, broker, {'topic': told['sink']})})"
    )
    inserts = tables.create_statement_set()
    for stream in range(told["streams"]):
        query = JOBS[job["shape"]].format(
            stream=stream,
            table=stream % len(told["sources"]),
            width=job["width_ms"] // 1000,
            gap=job["gap_ms"] // 1000,
            high=job["high"],
            low=job["low"],
        )
        inserts.add_insert_sql(f"INSERT INTO sink {query}")
    inserts.execute().wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
