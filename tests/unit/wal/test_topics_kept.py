"""How a topic is cut into segments: what is trimmed goes a segment at a time."""

from __future__ import annotations

import pytest

from millrace_core.wire.topics import Topic
from millrace_wal.kafka.log import _new_topic
from millrace_wal.kafka.trim import segment_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("kept", "segment"),
    [(0, 5 * MINUTE), (2 * MINUTE, 5 * MINUTE), (HOUR, 15 * MINUTE), (DAY, 6 * HOUR), (90 * DAY, 6 * HOUR)],
)
def test_a_topic_is_kept_in_few_segments_and_gives_space_back_soon(kept: int, segment: int) -> None:
    config = _new_topic(Topic("t", "key", "value", kept_ms=kept)).config
    assert int(config["segment.ms"]) == segment


@pytest.mark.parametrize("kept", [2 * MINUTE, HOUR, 90 * DAY])
def test_a_topic_that_is_there_is_cut_like_a_new_one(kept: int) -> None:
    assert str(segment_ms(kept)) == _new_topic(Topic("t", "key", "value", kept_ms=kept)).config["segment.ms"]


def test_what_is_kept_for_ever_is_cut_by_size_and_by_the_week() -> None:
    config = _new_topic(Topic("t", "key", "value", kept_ms=-1)).config
    assert int(config["segment.ms"]) == 7 * 24 * 60 * MINUTE, "not the broker's ten minutes"


def test_what_is_compacted_is_compacted_soon() -> None:
    config = _new_topic(Topic("t", "key", "value", compacted=True)).config
    assert config["cleanup.policy"] == "compact" and int(config["segment.ms"]) == 10 * MINUTE
