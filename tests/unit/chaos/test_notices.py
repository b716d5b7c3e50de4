"""Notifications in chaos runs: none missing, each window's last word right, one triggerId a window."""

from __future__ import annotations

from typing import Any

from ...chaos.notices import judge_notices
from ...chaos.oracle import Result
from ...chaos.streams import Interval, Session, Stream

STREAM = Stream("x", Session(5))
EXPECTED = [Result("a", 1, 4, 2, 7), Result("b", 1, 1, 1, None)]


def event(kind: str, group: str, start: int, trigger: str, *said: Any) -> dict[str, Any]:
    made = {"tableName": f"x_{group}", "eventType": kind, "windowStart": start, "triggerId": trigger}
    if said:
        made |= {"windowEnd": said[0], "result": {"n": said[1], "total": said[2]}}
    return made


A = [event("WINDOW_OPEN", "a", 1, "i"), event("WINDOW_CLOSE", "a", 1, "i", 4, 2, 7)]
B = [event("WINDOW_OPEN", "b", 1, "j"), event("WINDOW_CLOSE", "b", 1, "j", 1, 1, None)]
GONE = event("WINDOW_INVALIDATION", "a", 9, "k")


def judged(events: list[dict[str, Any]], stream: Stream = STREAM) -> tuple[int, list[str], list[str]]:
    one = judge_notices(stream, EXPECTED, events)
    return one.right, one.wrong, one.missing


def test_events_may_come_again_in_their_order() -> None:
    old = event("WINDOW_CLOSE", "a", 1, "i", 1, 1, 7)
    vanished = [event("WINDOW_CLOSE", "a", 9, "k", 9, 1, 1), GONE]
    assert judged([*A, *B, *A]) == (2, [], [])
    assert judged([A[0], old, A[1], old, A[1], *B, *vanished, *vanished]) == (2, [], [])


def test_what_is_missing_is_found() -> None:
    assert judged([*A, B[1]])[2] == ["x notified: x_b 1 to 1: no WINDOW_OPEN came"]
    assert judged([*A, B[0]])[2] == ["x notified: x_b 1 to 1: no WINDOW_CLOSE came"]


def test_what_is_wrong_is_found() -> None:
    old = event("WINDOW_CLOSE", "a", 1, "i", 1, 1, 7)
    assert "said (1, 1, 7), not (4, 2, 7)" in judged([*A, old, *B])[1][0]
    gone = GONE | {"windowStart": 1, "triggerId": "i"}
    assert "the last word was WINDOW_INVALIDATION" in judged([*A, gone, *B])[1][0]
    assert "no such window is left" in judged([*A, *B, event("WINDOW_CLOSE", "a", 9, "k", 9, 1, 1)])[1][0]
    assert "several triggerIds" in judged([*A, *B, A[1] | {"triggerId": "l"}])[1][0]
    assert "have the triggerId" in judged([*A, *({**one, "triggerId": "i"} for one in B)])[1][0]


def test_an_interval_may_be_told_to_be_empty() -> None:
    empty = event("WINDOW_CLOSE", "a", 10, "k", 20, 0, None)
    assert judged([*A, *B, empty], Stream("x", Interval(10, 10))) == (2, [], [])
    assert judged([*A, *B, empty])[1] != []
