"""The one streaming query: Kafka -> slots -> Kafka (DESIGN, section 3).

Every message goes to one slot: WAL messages by topic and key (a normal table's may have no key: its name is
meant), regrouped rows by their key, control records, ticks and handovers to all of them. What is done with a
micro-batch says ``trigger_svc.batches``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from millrace_core.trigger.topic_use import one_of
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PATTERN
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import forget
from trigger_svc.spark.workers import INPUT

SOURCE: dict[str, str] = {
    "startingOffsets": "earliest",
    # a table that is dropped takes its topic along; that is not a failure
    "failOnDataLoss": "false",
    # a consumer asks ahead; a batch that comes meanwhile waits for the answer
    "kafka.fetch.max.wait.ms": "1",
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


def connection(settings: TriggerSettings) -> dict[str, str]:
    """Where Kafka is, and how Spark's clients connect."""
    access = {f"kafka.{name}": value for name, value in settings.kafka.java.items()}
    return {"kafka.bootstrap.servers": settings.broker, **access}


def topics(left_out: Collection[str]) -> str:
    """The pattern of what the query reads: all topics that tables may have but these, and those of other
    messages."""
    tables = rf"(?!{one_of(left_out)}$){WAL_PATTERN}" if left_out else WAL_PATTERN
    return rf"^({tables}|{CONTROL.name}|{CLOCK.name}|{REGROUP.name}|{HANDOVER.name})$"


def slot_of(slots: int) -> Column:
    """The slot of a message, as ``wire.topics.slot_for`` says; null for those that go to all."""
    # a topic's name escapes bytes as -xx where a URL has %xx
    name = F.try_url_decode(F.replace(F.split_part("topic", F.lit("."), F.lit(3)), F.lit("-"), F.lit("%")))
    # a cast takes a text's bytes as they are; encode goes through Java's strings
    key = F.coalesce(F.col("key"), name.cast("binary"), F.lit("").cast("binary"))
    topic = F.col("topic").cast("binary")
    place = F.pmod(F.crc32(F.concat(topic, F.lit("/").cast("binary"), key)), F.lit(slots))
    return F.when(~F.col("topic").isin(CONTROL.name, CLOCK.name, HANDOVER.name), place.cast("int"))


def in_slots(messages: DataFrame, slots: int) -> DataFrame:
    """Messages (columns of INPUT) with the slot (or, one copy each, the slots) that they go to."""
    everywhere = F.sequence(F.lit(0), F.lit(slots - 1))
    found = slot_of(slots)
    return messages.select(
        F.explode(F.when(found.isNull(), everywhere).otherwise(F.array(found))).alias("slot"), *INPUT
    )


def messages_between(
    session: SparkSession,
    settings: TriggerSettings,
    starts: Mapping[str, Mapping[int, int]],
    ends: Mapping[str, Mapping[int, int]],
) -> DataFrame:
    """The messages (columns of INPUT) between these offsets, of the same topics and partitions."""
    told = {
        "startingOffsets": starts,
        "endingOffsets": ends,
        "assign": {topic: sorted(offsets) for topic, offsets in ends.items()},
    }
    options = SOURCE | {name: msgspec.json.encode(what).decode() for name, what in told.items()}
    return _columns(session.read.format("kafka").options(**options, **connection(settings)).load())


def _columns(messages: DataFrame) -> DataFrame:
    return messages.select(*(
        F.unix_millis("timestamp").alias(name) if name == "timestamp" else F.col(name) for name in INPUT
    ))  # fmt: skip


def start_query(
    session: SparkSession,
    settings: TriggerSettings,
    on_batch: Callable[[DataFrame, int], None],
    left_out: Collection[str],
) -> Any:
    """Start the query anew; a StreamingQuery. ``on_batch``: takes the messages (columns of INPUT) and the
    number of each micro-batch. The first one reaches from the beginning of all topics to their ends: nothing
    of it is read, for the slots' positions say what was evaluated. ``left_out``: WAL topics that it does not
    read."""
    shutil.rmtree(settings.checkpoint, ignore_errors=True)
    forget()
    source = session.readStream.format("kafka").options(**SOURCE)
    source = source.option("subscribePattern", topics(left_out))
    messages = source.options(**connection(settings)).load()
    # a task per thread, however many partitions have news: tasks cost more than what they read
    threads = session.sparkContext.defaultParallelism
    # where the reader is ahead a batch only seals; else a row waits for it
    apart = {"processingTime": f"{settings.trigger_commit_ms} milliseconds"} if settings.judge_ahead else {}
    writer = _columns(messages).coalesce(threads).writeStream
    return (
        (writer.trigger(**apart) if apart else writer)
        .foreachBatch(on_batch)
        .option("checkpointLocation", str(settings.checkpoint))
        .queryName("triggers")
        .start()
    )
