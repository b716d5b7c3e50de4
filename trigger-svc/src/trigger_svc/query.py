"""The one streaming query: Kafka -> slots -> Kafka (DESIGN, section 3).

Every message goes to one slot: WAL messages by topic and key (a normal table's may have no key: its name is
meant), regrouped rows by their key, control records, ticks and handovers to all of them. Messages are
shuffled as they are and decoded in their slot.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupStateTimeout

from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP
from trigger_svc.settings import TriggerSettings
from trigger_svc.shim import INPUT, OUTPUT_SCHEMA, STATE_SCHEMA, judge_slot

PATTERN = rf"^(wal\..*|{CONTROL.name}|{CLOCK.name}|{REGROUP.name}|{HANDOVER.name})$"

SOURCE: dict[str, str] = {
    "subscribePattern": PATTERN,
    "startingOffsets": "earliest",
    # a table that is dropped takes its topic along; that is no failure
    "failOnDataLoss": "false",
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.max.poll.records": "20000",
    "kafka.metadata.max.age.ms": "5000",
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    # a topic that is deleted while its offsets are asked for must not hold up all others for a minute
    "kafka.default.api.timeout.ms": "10000",
    "kafka.request.timeout.ms": "10000",
    "fetchOffset.numRetries": "20",
    "fetchOffset.retryIntervalMs": "50",
}
SINK: dict[str, str] = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "0",
    "kafka.compression.type": "lz4",
    "kafka.max.request.size": str(9 * 1024 * 1024),
}


def slot_of(slots: int) -> Column:
    """The slot of a message, as ``wire.topics.slot_of`` says; null for those that go to all."""
    # a topic's name escapes bytes as -xx where a URL has %xx
    name = F.url_decode(F.replace(F.split_part("topic", F.lit("."), F.lit(3)), F.lit("-"), F.lit("%")))
    key = F.coalesce(F.col("key"), F.encode(name, "UTF-8"))
    place = F.pmod(F.crc32(F.concat(F.encode(F.concat("topic", F.lit("/")), "UTF-8"), key)), F.lit(slots))
    return F.when(~F.col("topic").isin(CONTROL.name, CLOCK.name, HANDOVER.name), place.cast("int"))


def in_slots(messages: DataFrame, slots: int) -> DataFrame:
    """Kafka messages with the slot (or, one copy each, the slots) that they go to; columns of INPUT."""
    everywhere = F.sequence(F.lit(0), F.lit(slots - 1))
    found = slot_of(slots)
    return messages.select(
        F.explode(F.when(found.isNull(), everywhere).otherwise(F.array(found))).alias("slot"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
        "key",
        "value",
    ).select(*INPUT)


def start_query(session: SparkSession, settings: TriggerSettings) -> Any:
    """Start the query where its checkpoint left off; a StreamingQuery."""
    kafka = {"kafka.bootstrap.servers": settings.broker}
    source = session.readStream.format("kafka").options(**SOURCE, **kafka).load()
    # a task per core, however many partitions have news: tasks cost more than what they read
    cores = session.sparkContext.defaultParallelism
    judged = (
        in_slots(source.coalesce(cores), settings.slots)
        .groupBy("slot")
        .applyInPandasWithState(
            judge_slot(settings.slots), OUTPUT_SCHEMA, STATE_SCHEMA, "update", GroupStateTimeout.NoTimeout
        )
    )
    return (
        judged.writeStream.format("kafka")
        .options(**SINK, **kafka)
        .option("checkpointLocation", str(settings.checkpoint))
        .outputMode("update")
        .queryName("triggers")
        .start()
    )
