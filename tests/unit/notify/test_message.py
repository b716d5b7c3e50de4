"""The message is the seed's, complete, in order, and no longer than allowed."""

from __future__ import annotations

import json
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from millrace_core.notice.message import Outgoing, compose, take_fitting

NAMES = st.sampled_from(["db.s1", "db.s2", '设备."x"'])
EVENTS = st.lists(
    st.builds(lambda s, n: (s, {"groupId": str(n % 3), "n": n, "x": "e" * n}), NAMES, st.integers(0, 60))
)


def outgoing(stream: str, event: object) -> Outgoing:
    return Outgoing(stream, json.dumps(event).encode())


def test_the_message_of_the_seed() -> None:
    opening = {"eventType": "WINDOW_OPEN", "groupId": "1", "result": None}
    closing = {"eventType": "WINDOW_CLOSE", "groupId": "1", "result": {"avg(电流)": 1.3}}
    events = [outgoing("a.s", opening), outgoing("b.s", opening), outgoing("a.s", closing)]
    assert json.loads(compose("id-1", 1733284887203, events)) == {
        "messageId": "id-1",
        "timestamp": 1733284887203,
        "streams": [
            {"streamName": "a.s", "events": [opening, closing]},
            {"streamName": "b.s", "events": [opening]},
        ],
    }


@given(EVENTS, st.integers(1, 600))
def test_messages_hold_everything_once_in_order_and_keep_the_limit(
    events: list[tuple[str, dict[str, object]]], limit: int
) -> None:
    waiting = deque(outgoing(stream, event) for stream, event in events)
    found: dict[str, list[object]] = {}
    while waiting:
        taken = take_fitting(waiting, "an-id", limit)
        text = compose("an-id", 1733284887203, taken)
        assert len(text) <= limit or len(taken) == 1
        for stream in json.loads(text)["streams"]:
            found.setdefault(stream["streamName"], []).extend(stream["events"])
    expected: dict[str, list[object]] = {}
    for stream, event in events:
        expected.setdefault(stream, []).append(event)
    assert found == expected


def test_a_message_takes_as_much_as_fits() -> None:
    event = Outgoing("s", b"1" * 100)
    waiting = deque([event] * 10)
    limit = len(compose("id", 1733284887203, [event] * 4)) + 40
    assert len(take_fitting(waiting, "id", limit)) == 4
    assert len(waiting) == 6
