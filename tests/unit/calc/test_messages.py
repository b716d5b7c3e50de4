"""Messages of a topic in columns are the records that were read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calc_svc.store.messages import Messages, by_topic
from millrace_core.store.place import place_of
from millrace_wal import Record
from millrace_wal.record import stretches_of

cells = st.one_of(st.none(), st.binary(max_size=2))
partitions = st.integers(0, 2)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """What polls give: topics and partitions as they come, each partition's messages in order."""
    runs = draw(st.lists(st.tuples(st.sampled_from("ab"), partitions, st.integers(1, 4)), max_size=6))
    ends: dict[tuple[str, int], int] = {}
    found = []
    for topic, partition, count in runs:
        for _ in range(count):
            offset = ends.get((topic, partition), 0) + draw(st.integers(0, 1))
            ends[topic, partition] = offset + 1
            found.append(Record(topic, partition, offset, len(found), draw(cells), draw(cells)))
    return found


@given(records(), st.integers(0, 25))
def test_columns_are_those_of_the_records(read: list[Record], at: int) -> None:
    came = by_topic(stretches_of(read))
    assert list(came) == list(dict.fromkeys(record.topic for record in read))
    for topic, found in came.items():
        mine = [record for record in read if record.topic == topic]
        assert found.records() == mine == [found.record(place) for place in range(len(found))]
        assert list(found.keys) == [record.key for record in mine]
        assert list(found.values) == [record.value for record in mine]
        assert found.places.tolist() == [place_of(record.partition, record.offset) for record in mine]
        assert found.ends == {record.partition: record.offset + 1 for record in mine}
        before, after = found.split(at)
        assert before.records() == mine[:at]
        assert after.records() == mine[at:]
        assert (before + after).records() == mine


def test_of_nothing_there_is_nothing() -> None:
    none = Messages(())
    assert (len(none), none.records(), list(none.keys), none.ends) == (0, [], [], {})
    assert none.places.tolist() == []
