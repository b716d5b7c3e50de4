"""Poison in every topic of the trigger query: one dead letter each, and streams as if it were not there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot, evaluate_batch
from millrace_core.wire import dead
from millrace_core.wire.operations import Register, encode_operation
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, buried_by, slot_for

from ...poison import BAD_KEY, MEGABYTES, Cell, cells, malformed_cells, wal_cells

ROW = b'{"ts":5,"v":1}'
CELLS = [
    *(cell for topic in (CONTROL, CLOCK, REGROUP, HANDOVER) for cell in cells(topic)),
    *wal_cells("wal.d.meters", b"c1", ROW, normal=False),
    *wal_cells("wal.d.plain", b"plain", ROW, normal=True),
    *malformed_cells(ROW),
]


class Deployment:
    """Slots judged as trigger-svc does, messages shared out as it does."""

    def __init__(self, kit: Any) -> None:
        class Isolated(kit.Cluster):  # type: ignore[misc, name-defined]
            def _slot(self, record: tuple[Any, ...]) -> int | None:
                return slot_for(record[0], record[4], self.slots)

            def on_batch(self, number: int, records: list[Any]) -> list[tuple[str, bytes, bytes]]:
                messages, blob = Messages.of(records), self.blobs.get(number)
                if not Slot.heeds(blob, messages):
                    return []
                judged = evaluate_batch(blob, number, self.slots, messages)
                self.blobs[number] = judged.state
                return list(judged.sent)

        self.cluster = Isolated(3)
        self._plain = kit.PLAIN
        for uid, more in enumerate(({}, {"partition": ("site",)}, {"partition": ()}, {"table": kit.PLAIN})):
            self.cluster.define(kit.stream(uid + 1, **more))
        for child in ("c1", "c2"):
            self.cluster.operate(child, Register({"site": 1}))
        self.cluster.run()

    def load(self, begin: int) -> None:
        for child in ("c1", "c2"):
            self.cluster.write(child, [begin, begin + 10])
        self.cluster.write(None, [begin, begin + 10], table=self._plain)

    def told(self) -> list[Any]:
        return [(batch.stream, event.kind, event.group, event.start, event.end, event.rownum)
                for batch in self.cluster.triggers for event in batch.events]  # fmt: skip


def _run(kit: Any, poisons: list[Cell]) -> Deployment:
    """Rows in three batches, with the poison in front of, between and behind those of the second."""
    here = Deployment(kit)
    for begin in (100, 200, 300):
        for cell in poisons if begin == 200 else []:
            here.cluster.send(cell.topic, cell.key, cell.value)
        here.load(begin)
        here.cluster.run()
    return here


@pytest.fixture(scope="module")
def undisturbed(kit: Any) -> list[Any]:
    told = _run(kit, []).told()
    assert {stream for stream, *_ in told} == {1, 2, 3, 4}
    return told


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_one_message_costs_no_stream_anything(kit: Any, undisturbed: list[Any], cell: Cell) -> None:
    here = _run(kit, [cell])
    assert here.told() == undisturbed
    mine = cell.letters if buried_by(cell.topic) == "trigger-svc" else 0
    assert [(one.topic, one.service) for one in here.cluster.letters] == [(cell.topic, "trigger-svc")] * mine
    for one in here.cluster.letters:
        whole = one.truncated.get("value", dead.Whole(len(one.value or b""), ""))
        assert whole.length == len(cell.value or b"") and one.key == cell.key and one.detail
    assert not any(hasattr(news, "message") and news.message for news in here.cluster.status)


def test_all_of_it_at_once_in_one_batch(kit: Any, undisturbed: list[Any]) -> None:
    here = _run(kit, CELLS)
    assert sorted(here.told(), key=str) == sorted(undisturbed, key=str)
    wanted = Counter(cell.topic for cell in CELLS if cell.letters and buried_by(cell.topic) == "trigger-svc")
    assert Counter(one.topic for one in here.cluster.letters) == wanted


def test_a_tick_that_cannot_be_read_is_a_dead_letter_before_anything_else_has_come(kit: Any) -> None:
    cluster = Deployment(kit).cluster
    cluster.blobs.clear()
    cluster.send(CLOCK.name, None, b"tick")
    cluster.run()
    assert [one.topic for one in cluster.letters] == [CLOCK.name]


@pytest.mark.parametrize("key", [BAD_KEY, MEGABYTES])
def test_a_child_that_no_table_name_can_name_leaves_nothing_in_the_state(kit: Any, key: bytes) -> None:
    here = Deployment(kit)
    sizes = {number: len(blob) for number, blob in here.cluster.blobs.items()}
    here.cluster.send("wal.d.meters", key, encode_operation(Register({"site": 1})))
    here.cluster.send("wal.d.meters", key, ROW)
    here.cluster.run()
    assert here.told() == []
    assert all(len(blob) < sizes[number] + 1_000 for number, blob in here.cluster.blobs.items())
