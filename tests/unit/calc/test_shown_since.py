"""An answer about a window that is shown before it closes, written behind what is live has told since."""

from __future__ import annotations

from typing import Any

from millrace_core.calc.overtaking import Turns
from millrace_core.wire.events import ANSWERING, Group, TriggerBatch, TriggerEvent

ME = Group(5, (), "c1")


def batch(slot: int, seen: int, *told: tuple[str, str, int, int]) -> TriggerBatch:
    events = [
        TriggerEvent(f"{start}", kind, cause, ME, start, end, 1, 0)  # type: ignore[arg-type]
        for kind, cause, start, end in told
    ]
    return TriggerBatch(1, 0, slot, 1, {0: seen}, events)


def ends(turns: Turns, one: TriggerBatch) -> list[Any]:
    (found,) = turns.freshened({1: [one]})[1]
    return [event.end for event in found.events]


def live(turns: Turns, seen: int, *told: tuple[str, str, int, int]) -> None:
    turns.written(turns.begin(), {1: [batch(0, seen, *told)]})


SHOWN = ("CLOSE", "DELAY", 1, 9)


def test_what_is_live_has_told_since_goes_instead_of_an_answer() -> None:
    turns = Turns()
    live(turns, 8, ("CLOSE", "DELAY", 1, 12), ("CLOSE", "DELAY", 20, 25))
    assert ends(turns, batch(ANSWERING, 7, ("RETRACT", "RECALC", 0, 9), SHOWN)) == [9, 12]
    assert ends(turns, batch(ANSWERING, 9, SHOWN)) == [9], "the answer knows more"
    assert ends(turns, batch(0, 7, SHOWN)) == [9], "what is live is in its order"
    live(turns, 7, ("CLOSE", "DELAY", 1, 10))
    assert ends(turns, batch(ANSWERING, 7, SHOWN)) == [12], "calculated again, it is no newer"


def test_of_what_has_closed_or_is_gone_nothing_is_known() -> None:
    turns = Turns()
    for kind, cause in (("CLOSE", "LIVE"), ("RETRACT", "DELAY"), ("INVALID", "LIVE")):
        live(turns, 8, ("CLOSE", "DELAY", 1, 12))
        live(turns, 9, (kind, cause, 1, 12))
        assert ends(turns, batch(ANSWERING, 7, SHOWN)) == [9]


def test_no_more_is_known_than_there_is_room_for() -> None:
    turns = Turns(most_shown=2)
    live(turns, 8, *(("CLOSE", "DELAY", start, start + 3) for start in (0, 10, 20)))
    found = batch(ANSWERING, 7, *(("CLOSE", "DELAY", start, start) for start in (0, 10, 20)))
    assert ends(turns, found) == [0, 13, 23]
