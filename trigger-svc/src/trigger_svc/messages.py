"""Messages of the log in the form in which slots get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.rows import Messages, distinct, present
from millrace_core.wire import control
from millrace_core.wire.control import AnyControl
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PREFIX, slot_for
from millrace_wal import Record, Stretch
from trigger_svc.ledger.states import Positions

INNER = (CONTROL.name, CLOCK.name, HANDOVER.name)
"""Topics whose messages go to all slots. They take effect after the rows that were there before them."""
EVERYWHERE = -1
"""The slot number of messages that go to all slots."""


def is_rows(topic: str) -> bool:
    """Whether a topic holds rows: a table's, or those on their way to their group."""
    return topic == REGROUP.name or topic.startswith(WAL_PREFIX)


def of_stretches(stretches: Sequence[Stretch]) -> Messages:
    """Messages as they were read, in their order; without making an object for each."""
    sizes = list(map(len, stretches))
    topics, topic = distinct([some.topic for some in stretches])
    keys, key = distinct(list(chain.from_iterable(some.keys for some in stretches)))
    partition = np.array([some.partition for some in stretches], dtype=np.int64)
    offset = _joined(some.offsets for some in stretches)
    timestamp = _joined(some.timestamps for some in stretches)
    values = list(chain.from_iterable(some.values for some in stretches))
    return Messages(
        topics, np.repeat(topic, sizes), keys, key, np.repeat(partition, sizes), offset, timestamp, values
    )


def _joined(parts: Iterable[Sequence[int]]) -> Ints:
    cells = [
        # mostly a range, as there are no holes between offsets
        np.arange(one.start, one.stop, one.step) if isinstance(one, range) else np.array(one, dtype=np.int64)
        for one in parts
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *cells])


def apart(messages: Messages) -> tuple[Messages, Messages]:
    """The rows, and the messages for all slots: these take effect after the rows that came before them."""
    rows = np.array([is_rows(topic) for topic in messages.topics], dtype=bool)[messages.topic]
    return messages.only(rows), messages.only(~rows)


def ends_of(messages: Messages) -> Positions:
    """The offsets after these messages, for the partitions that have any."""
    found: Positions = {}
    for place in present(messages.topic).tolist():
        mine = messages.topic == place
        partition, offset = messages.partition[mine], messages.offset[mine]
        found[messages.topics[place]] = {
            one: int(offset[partition == one].max()) + 1 for one in present(partition).tolist()
        }
    return found


def by_slot(messages: Messages, slots: int) -> Iterator[tuple[int, Messages]]:
    """The messages of each slot that gets any, in the order of slots."""
    kind = messages.topic * len(messages.keys) + messages.key
    slot_of_kind = np.zeros(int(kind.max(initial=0)) + 1, dtype=np.int64)
    for one in present(kind).tolist():
        topic, key = divmod(one, len(messages.keys))
        slot = slot_for(messages.topics[topic], messages.keys[key], slots)
        slot_of_kind[one] = EVERYWHERE if slot is None else slot
    goes_to = slot_of_kind[kind]
    for slot in range(slots):
        mine = (goes_to == slot) | (goes_to == EVERYWHERE)
        if mine.any():
            yield slot, messages.only(mine)


def controls_of(messages: Messages) -> Iterator[AnyControl]:
    """The control records among the messages, in their order; the slots report what is wrong with one that
    cannot be read."""
    if CONTROL.name not in messages.topics:
        return
    place = messages.topics.index(CONTROL.name)
    for at in np.flatnonzero(messages.topic == place).tolist():
        value = messages.value[at]
        with suppress(Exception):
            if not control.RECORDS.deletes(value):
                yield control.RECORDS.read(messages.key_of(at), value)


def records_of(messages: Messages) -> Iterator[Record]:
    for at in range(len(messages)):
        yield Record(
            messages.topic_of(at), int(messages.partition[at]), int(messages.offset[at]),
            int(messages.timestamp[at]), messages.key_of(at), messages.value[at],
        )  # fmt: skip
