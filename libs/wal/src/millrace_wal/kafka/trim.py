"""Having a Kafka topic forget records, and keep them for some time.

Trimming removes whole segments, but never the last one of a partition, so how long a segment lasts decides
when the space is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal.kafka.errors import MISSING, kafka_error

_ANSWER = 10.0
"""Seconds that the broker may take."""
LEAST_SEGMENT_MS, MOST_SEGMENT_MS = 300_000, 6 * 3_600_000
NEVER_TRIMMED_MS = 7 * 24 * 3_600_000
SEGMENTS = 4
"""A topic is kept in about this many segments, however slowly it grows: each takes two memory maps."""
_NOTHING = MISSING | {KafkaError.GROUP_ID_NOT_FOUND}


def forget_before(admin: AdminClient, ends: Mapping[str, Mapping[int, int]]) -> None:
    """Have the broker delete what lies before these offsets; a topic that is gone is not an error."""
    wanted = [TopicPartition(topic, *place) for topic, places in ends.items() for place in places.items()]
    if wanted:
        _settle("trim", [(where.topic, future) for where, future in admin.delete_records(wanted).items()])


def offsets_at(admin: AdminClient, topic: str, ends: Mapping[int, int], at: int) -> dict[int, int]:
    """Partition -> the first offset whose record was written at that time (ms) or later; if there is none,
    the offset in ``ends``."""
    asked = {TopicPartition(topic, partition): OffsetSpec.for_timestamp(at) for partition in ends}
    futures = admin.list_offsets(asked, request_timeout=_ANSWER)
    found = dict(_settle(f"look up times in topic {topic}", futures.items()))
    return {
        where.partition: result.offset if result.offset >= 0 else ends[where.partition]
        for where, result in found.items()
    }


def keep_for(admin: AdminClient, retentions: Mapping[str, int]) -> None:
    """Set how long (ms; -1: forever) existing topics keep their records, where they have it otherwise."""
    _set(admin, "retention.ms", retentions)


def cut_for(admin: AdminClient, kept: Mapping[str, int]) -> None:
    """Have existing topics begin segments often enough for records to be trimmed after so long (ms)."""
    _set(admin, "segment.ms", {topic: segment_ms(one) for topic, one in kept.items()})


def segment_ms(kept: int) -> int:
    """How long a segment lasts at most (ms) if records are trimmed after so long (ms; -1: never)."""
    if kept < 0:
        return NEVER_TRIMMED_MS
    return max(LEAST_SEGMENT_MS, min(kept // SEGMENTS, MOST_SEGMENT_MS))


def _set(admin: AdminClient, setting: str, wanted: Mapping[str, int]) -> None:
    """Set this of topics, where they have it otherwise; a topic that is gone is not an error."""
    topics = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
    if not topics:
        return
    there = _settle("read the settings of topics", admin.describe_configs(topics).items())
    odd = [
        ConfigResource(
            ResourceType.TOPIC, topic.name,
            incremental_configs=[
                ConfigEntry(
                    setting, str(wanted[topic.name]), incremental_operation=AlterConfigOpType.SET
                )
            ],
        )
        for topic, settings in there
        if settings[setting].value != str(wanted[topic.name])
    ]  # fmt: skip
    if odd:
        _settle(f"set {setting} of topics", admin.incremental_alter_configs(odd).items())


def _settle(doing: str, futures: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The answers; those about what is gone are left out."""
    found = []
    for about, future in futures:
        try:
            found.append((about, future.result(_ANSWER)))
        except KafkaException as error:
            if error.args[0].code() not in _NOTHING:
                raise kafka_error(error, doing) from error
        except TimeoutError as error:
            raise MillraceError(ErrorCode.TIMEOUT, f"{doing}: the broker did not answer") from error
    return found
