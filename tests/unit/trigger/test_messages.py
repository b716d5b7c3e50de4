"""Messages as columns, whatever order Spark's tasks give them in."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.trigger.rows import Messages
from millrace_spark.python_workers import without_archives
from millrace_wal import Record as Read
from millrace_wal.record import stretches_of
from trigger_svc.messages import of_stretches
from trigger_svc.spark.workers import Arrived

Record = tuple[str, int, int, int, bytes | None, bytes | None]


def _records(places: list[tuple[str, int, int]]) -> list[Record]:
    return [
        (topic, partition, offset, 7, None if offset % 5 == 0 else b"k%d" % offset, b"v%d" % offset)
        for topic, partition, offset in places
    ]


def _rows(messages: Messages) -> list[tuple[object, ...]]:
    columns = (messages.partition, messages.offset, messages.timestamp)
    topics = [messages.topic_of(place) for place in range(len(messages))]
    keys = [messages.key_of(place) for place in range(len(messages))]
    return list(zip(topics, *(c.tolist() for c in columns), keys, messages.value, strict=True))


def _table(records: list[Record], chunk: int) -> pa.Table:
    names = ["topic", "partition", "offset", "timestamp", "key", "value"]
    kinds = [pa.large_string(), pa.int32(), pa.int64(), pa.int64(), pa.large_binary(), pa.large_binary()]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    parts = [records[begin : begin + chunk] for begin in range(0, len(records), chunk)]
    batches = [
        pa.record_batch(
            [pa.array(cells, kind) for cells, kind in zip(zip(*part, strict=True), kinds, strict=True)],
            schema=schema,
        )
        for part in parts
    ]
    return pa.Table.from_batches(batches, schema)


places = st.lists(
    st.tuples(st.sampled_from(["clock", "wal.d.a", "wal.d.b"]), st.integers(0, 2), st.integers(0, 30)),
    unique=True,
    max_size=25,
)


@given(places, st.randoms(use_true_random=False), st.integers(1, 9))
def test_messages_of_a_topic_come_in_the_order_of_the_log(
    found: list[tuple[str, int, int]], shuffled: random.Random, chunk: int
) -> None:
    records = _records(found)
    shuffled.shuffle(records)
    arrived = Arrived(_table(records, chunk))
    messages = arrived.take()
    assert _rows(messages) == records
    some = np.arange(0, len(records), 2)
    assert _rows(arrived.take(some)) == records[::2]
    ordered = _rows(arrived.in_order(some))
    topics = list(dict.fromkeys(topic for topic, *_ in ordered))
    assert ordered == sorted(records[::2], key=lambda row: (topics.index(row[0]), *row[1:3]))
    assert messages.named() == {topic for topic, *_ in found}
    parts = messages.by_topic()
    assert list(parts) == sorted(messages.named())
    assert [row for part in parts.values() for row in _rows(part)] == sorted(records, key=lambda row: row[:3])
    again = Messages.of(records).by_topic()
    assert [_rows(part) for part in again.values()] == [_rows(part) for part in parts.values()]


def test_workers_do_without_archives() -> None:
    """Spark's archives come first in the path; the packages that they hold are installed too."""
    assert without_archives(["", "/x/pyspark.zip", "/x/spark-core.jar", "/x/site-packages"]) == [
        "",
        "/x/site-packages",
    ]


@given(places, st.integers(0, 9))
def test_what_was_read_in_columns_is_what_was_read_one_by_one(
    found: list[tuple[str, int, int]], cut: int
) -> None:
    records = [Read(*cells) for cells in _records(found)]
    stretches = stretches_of(records)
    assert _rows(of_stretches(stretches)) == _rows(Messages.of(records))
    assert _rows(of_stretches([some.part(cut, len(some)) for some in stretches if len(some) > cut])) == _rows(
        Messages.of([one for some in stretches for one in some.records()[cut:]])
    )
