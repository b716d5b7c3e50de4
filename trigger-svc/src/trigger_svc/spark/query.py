"""The one streaming query: Kafka -> slots -> Kafka (DESIGN, section 3).

WAL messages go to one slot by topic and key (a normal table's messages may have no key; its name counts as
the key), and so do regrouped rows by their key. Control records, ticks and handovers go to all slots. See
``trigger_svc.batches`` for what is done with a micro-batch.
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
    # when a table is dropped, its topic goes, too; that is not a failure
    "failOnDataLoss": "false",
    # a consumer fetches ahead, and a batch that comes meanwhile has to wait for the answer
    "kafka.fetch.max.wait.ms": "1",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.max.poll.records": "20000",
    "kafka.metadata.max.age.ms": "5000",
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    # a topic that is deleted while its offsets are being asked for must not hold up all others for a minute
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
    """The pattern for what the query reads: all topics that tables may have, except those left out, and the
    topics of other messages."""
    tables = rf"(?!{one_of(left_out)}$){WAL_PATTERN}" if left_out else WAL_PATTERN
    return rf"^({tables}|{CONTROL.name}|{CLOCK.name}|{REGROUP.name}|{HANDOVER.name})$"


def slot_of(slots: int) -> Column:
    """The slot of a message, as ``wire.topics.slot_for`` says; null for messages that go to all slots."""
    # a topic's name escapes bytes as -xx where a URL has %xx
    name = F.try_url_decode(F.replace(F.split_part("topic", F.lit("."), F.lit(3)), F.lit("-"), F.lit("%")))
    # a cast takes a text's bytes as they are; encode would go through Java strings
    key = F.coalesce(F.col("key"), name.cast("binary"), F.lit("").cast("binary"))
    topic = F.col("topic").cast("binary")
    place = F.pmod(F.crc32(F.concat(topic, F.lit("/").cast("binary"), key)), F.lit(slots))
    return F.when(~F.col("topic").isin(CONTROL.name, CLOCK.name, HANDOVER.name), place.cast("int"))


def in_slots(messages: DataFrame, slots: int) -> DataFrame:
    """Messages (columns of INPUT) with the slot that each goes to; one copy per slot if there are several."""
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
    """The messages (columns of INPUT) from the starts to the ends, of the topics and partitions that the ends
    name. A partition without a start begins at 0."""
    told = {
        # Spark refuses partitions that have no end
        "startingOffsets": {
            topic: {partition: starts.get(topic, {}).get(partition, 0) for partition in offsets}
            for topic, offsets in ends.items()
        },
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
    """Start the query anew; returns a StreamingQuery. ``on_batch``: takes the messages (columns of INPUT) and
    the number of each micro-batch. The first batch covers all topics from beginning to end, but it is not
    read as such: the slots' positions say what was evaluated. ``left_out``: WAL topics that it does not
    read."""
    shutil.rmtree(settings.checkpoint, ignore_errors=True)
    forget()
    source = session.readStream.format("kafka").options(**SOURCE)
    source = source.option("subscribePattern", topics(left_out))
    messages = source.options(**connection(settings)).load()
    # one task per thread, however many partitions have messages: tasks cost more than what they read
    threads = session.sparkContext.defaultParallelism
    # if the reader is ahead, a batch only seals and may come later; otherwise rows wait for it
    apart = {"processingTime": f"{settings.trigger_commit_ms} milliseconds"} if settings.judge_ahead else {}
    writer = _columns(messages).coalesce(threads).writeStream
    return (
        (writer.trigger(**apart) if apart else writer)
        .foreachBatch(on_batch)
        .option("checkpointLocation", str(settings.checkpoint))
        .queryName("triggers")
        .start()
    )
