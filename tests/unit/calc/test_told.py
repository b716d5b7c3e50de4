"""Which windows were told of, from records of partitions that are read in any order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from calc_svc.store.catalog import CatalogView
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.stream import Notify, StreamSpec
from millrace_core.recalc.told import Told
from millrace_core.trigger.types import State
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent

GROUP = Group(5, ("c1",), "c1")
# what was told at 1, 2 and so on: kind, start, end
WORDS = [("OPEN", 10, 10), ("CLOSE", 10, 12), ("INVALID", 10, 12), ("OPEN", 10, 10), ("CLOSE", 10, 19)]


def heard(words: Any) -> list[tuple[int, int]]:
    catalog = CatalogView()
    spec = StreamSpec(1, "d", "s", "", State("v"), notify=Notify(("ws://a",), ("WINDOW_CLOSE",)))
    entry = StreamEntry(spec, "Running", 0, 1)
    catalog.apply(0, key_of(entry), encode(entry))
    told = Told(catalog)
    for at, (kind, start, end) in words:
        event = TriggerEvent("w", kind, "RECALC", GROUP, start, end, 1, 0)
        told.hear(TriggerBatch(1, 0, 0, 0, {}, [event]), at)
    return told.of(1, GROUP.id)


@pytest.mark.parametrize(("upto", "there"), [(1, True), (2, True), (3, False), (4, True), (5, True)])
def test_the_later_word_counts_in_whatever_order_they_are_read(upto: int, there: bool) -> None:
    for words in permutations(list(enumerate(WORDS, 1))[:upto]):
        assert [start for start, _ in heard(words)] == [10] * there


def test_a_window_ends_where_it_was_told_to_have_closed_last() -> None:
    for words in permutations(list(enumerate(WORDS, 1))):
        assert heard(words) == [(10, 19)]
