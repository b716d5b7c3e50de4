"""What an answer says once what is live has told of its windows anew."""

from __future__ import annotations

from typing import Any

from millrace_core.recalc.latest import Latest
from millrace_core.wire.events import ANSWERING, Group, TriggerBatch, TriggerEvent

ME = Group(5, (), "c1")


def batch(slot: int, seen: int, *told: tuple[str, int, int]) -> TriggerBatch:
    events = [TriggerEvent(f"{start}", kind, "LIVE", ME, start, end, 1, 0) for kind, start, end in told]  # type: ignore[arg-type]
    return TriggerBatch(1, 0, slot, 1, {0: seen}, events)


def said(latest: Latest, one: TriggerBatch) -> list[Any]:
    return [(event.kind, event.start, event.end) for event in latest.corrected(one).events]


def heard(*batches: TriggerBatch, most: int = 10) -> Latest:
    latest = Latest(most)
    for one in batches:
        latest.hear(one)
    return latest


def test_a_window_has_the_end_that_was_told_since() -> None:
    """Chaos, seed 20: history told of a session, rows that came late joined it with the next one."""
    latest = heard(batch(0, 8, ("CLOSE", 1, 12), ("CLOSE", 20, 25)))
    answer = ("CLOSE", 1, 9), ("CLOSE", 30, 33)
    assert said(latest, batch(ANSWERING, 7, *answer)) == [("CLOSE", 1, 12), ("CLOSE", 30, 33)]
    assert said(latest, batch(ANSWERING, 8, *answer)) == list(answer), "it had read as many rows"
    assert said(latest, batch(0, 7, *answer)) == list(answer), "what is live is in its order"


def test_the_last_that_was_told_counts() -> None:
    latest = heard(batch(0, 8, ("CLOSE", 1, 12)), batch(0, 9, ("CLOSE", 1, 15)))
    assert said(latest, batch(ANSWERING, 7, ("CLOSE", 1, 9))) == [("CLOSE", 1, 15)]
    latest.hear(batch(0, 10, ("RETRACT", 1, 1)))
    assert said(latest, batch(ANSWERING, 7, ("CLOSE", 1, 9))) == [("RETRACT", 1, 1)]


def test_an_opening_changes_nothing_and_other_answers_are_not_heard() -> None:
    latest = heard(batch(0, 8, ("OPEN", 1, 1)), batch(ANSWERING, 8, ("CLOSE", 1, 12)))
    assert said(latest, batch(ANSWERING, 7, ("CLOSE", 1, 9))) == [("CLOSE", 1, 9)]


def test_behind_what_is_taken_back_stands_what_was_told_since() -> None:
    latest = heard(batch(0, 8, ("CLOSE", 3, 12), ("RETRACT", 5, 5), ("CLOSE", 21, 25)))
    answer = ("RETRACT", 0, 20), ("CLOSE", 1, 2)
    assert said(latest, batch(ANSWERING, 7, *answer)) == [
        ("RETRACT", 0, 20), ("CLOSE", 3, 12), ("CLOSE", 1, 2),
    ]  # fmt: skip
    assert said(latest, batch(ANSWERING, 9, *answer)) == list(answer)


def test_one_partition_ahead_and_another_behind_says_nothing() -> None:
    latest = heard(TriggerBatch(1, 0, 0, 1, {0: 9, 1: 2}, batch(0, 0, ("CLOSE", 1, 12)).events))
    answer = TriggerBatch(1, 0, ANSWERING, 1, {0: 7, 1: 3}, batch(0, 0, ("CLOSE", 1, 9)).events)
    assert said(latest, answer) == [("CLOSE", 1, 9)]


def test_no_more_is_known_than_there_is_room_for() -> None:
    latest = heard(batch(0, 8, *(("CLOSE", start, start + 3) for start in (0, 10, 20))), most=2)
    answer = batch(ANSWERING, 7, *(("CLOSE", start, start) for start in (0, 10, 20)))
    assert [end for _, _, end in said(latest, answer)] == [0, 13, 23]
