"""Messages taken into columns, few at a time, are what was read one by one."""

from __future__ import annotations

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from millrace_wal.kafka.columns import Columns
from millrace_wal.record import TRACEPARENT, Record


@st.composite
def few_at_a_time(draw: st.DrawFn) -> list[list[tuple[Record, str]]]:
    """Records of two topics, their offsets with holes, and the trace of each; in parts of any size."""
    ends: dict[tuple[str, int], int] = {}
    found = []
    for number in range(draw(st.integers(0, 30))):
        place = draw(st.sampled_from([("a", 1), ("a", 2), ("b", 1)]))
        offset = ends.get(place, 5) + draw(st.sampled_from([0, 0, 0, 2]))
        ends[place] = offset + 1
        key, value = draw(st.sampled_from([None, b"k"])), draw(st.sampled_from([None, b"%d" % number]))
        trace = draw(st.sampled_from(["", "", "", f"t{number}"]))
        found.append((Record(*place, offset, 1000 + number % 7, key, value), trace))
    cuts = sorted(draw(st.lists(st.integers(0, len(found)), max_size=5)))
    return [found[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(found)], strict=True)]


def message(record: Record, trace: str) -> Message:
    headers: list[tuple[str, bytes]] | None = [("other", b"x")] if record.offset % 2 else None
    if trace:
        headers = [*(headers or []), (TRACEPARENT, trace.encode())]
    return Message(
        topic=record.topic, partition=record.partition, offset=record.offset, key=record.key,
        value=record.value, timestamp=(1, record.timestamp), headers=headers,
    )  # fmt: skip


@given(few_at_a_time(), st.integers(0, 40))
def test_columns_hold_what_was_read(read: list[list[tuple[Record, str]]], most: int) -> None:
    columns, reached = Columns(), dict[tuple[str, int], int]()
    for some in read:
        for topic, partition, end in columns.add([message(*one) for one in some]):
            reached[topic, partition] = end
    everything = [one for some in read for one in some]
    found = columns.stretches()
    assert [record for some in found for record in some.records()] == [record for record, _ in everything]
    assert sum(map(len, found)) == len(everything)
    assert reached == {(one.topic, one.partition): one.offset + 1 for one, _ in everything}
    traced = [(some.record(place), trace) for some in found for place, trace in some.traceparents.items()]
    assert traced == [one for one in everything if one[1]]
    written: dict[str, list[int]] = {}
    for record, _ in everything[:most]:
        written.setdefault(record.topic, []).append(record.timestamp)
    assert columns.written(most) == written


def test_offsets_without_holes_are_a_range_however_they_came() -> None:
    columns = Columns()
    for begin in (0, 3, 6):
        columns.add([message(Record("a", 1, begin + i, 0, None, b""), "") for i in range(3)])
    (found,) = columns.stretches()
    assert found.offsets == range(9)
