"""What a slot keeps of one stream has an end: the stream fails, says why, and the others go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.model.expression import Field
from millrace_core.model.stream import GroupKey
from millrace_core.model.types import DataType
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot, evaluate_batch
from millrace_core.trigger.slot.diagnosis import part_of
from millrace_core.wire import status

GREEDY, GOOD, MOST = 90, 1, 20


@pytest.fixture
def here(kit: Any) -> Any:
    """One slot that keeps at most 20 of anything of a stream."""

    class Bounded(kit.Cluster):  # type: ignore[misc, name-defined]
        def on_batch(self, number: int, records: list[Any]) -> list[tuple[str, bytes, bytes]]:
            messages, blob = Messages.of(records), self.blobs.get(number)
            if not Slot.heeds(blob, messages):
                return []
            judged = evaluate_batch(blob, number, self.slots, messages, most_held=MOST)
            self.blobs[number] = judged.state
            return judged.sent

        def failures(self) -> dict[int, str]:
            told = [news for news in self.status if isinstance(news, status.StreamFailure)]
            return {news.stream: news.message for news in told if news.message}

    return Bounded(1)


GREEDIES: dict[str, tuple[dict[str, Any], str]] = {
    "windows of rows": ({"trigger": {"Count": {"count": 1000, "sliding": 1}}}, "open windows"),
    "windows that overlap": ({"trigger": {"Interval": {"interval": 100, "sliding": 1}}}, "open windows"),
    "rows that wait": ({"watermark": 86_400_000}, "rows waiting for the watermark"),
}


@pytest.mark.parametrize("name", GREEDIES)
def test_a_stream_that_would_hold_too_much_fails_alone(kit: Any, here: Any, name: str) -> None:
    more, what = GREEDIES[name]
    here.define(kit.stream(GREEDY, **more))
    here.define(kit.stream(GOOD))
    for ts in range(100, 100 + 6 * MOST, 3):
        here.write("c1", [ts])
        here.run()
    assert here.failures().keys() == {GREEDY}
    message = here.failures()[GREEDY]
    assert what in message and "MILLRACE_TRIGGER_MOST_HELD" in message
    assert len(here.live(GOOD)["c1"]) >= 5


def test_groups_that_rows_make_have_an_end(kit: Any, here: Any) -> None:
    spec = kit.stream(GREEDY, trigger={"Session": {"gap": 5}})
    here.define(msgspec.structs.replace(spec, keys=(GroupKey("v", DataType("INT"), Field("v")),)))
    here.define(kit.stream(GOOD))
    for v in range(2 * MOST):
        here.write("c1", [[100 + v, v]])
        here.run()
    assert "groups" in here.failures()[GREEDY]
    assert here.live(GOOD)["c1"]


def test_what_is_held_is_told_when_asked(kit: Any, here: Any) -> None:
    here.define(kit.stream(GREEDY, trigger={"Count": {"count": 1000, "sliding": 1}}))
    here.write("c1", [1, 2, 3])
    here.run()
    slot = Slot.restore(here.blobs[0])
    part = part_of(slot.contents.streams[GREEDY], 1, 10)
    assert (part.total, part.windows, part.waiting) == (1, 3, 0)
