"""A client that gives nothing of what lies there."""

from __future__ import annotations

from collections.abc import Collection

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal.kafka.silence import SILENT, Silence
from millrace_wal.record import Positions


class Asked:
    """Somebody who knows the ends, at a time of his own."""

    def __init__(self) -> None:
        self.now, self.ends, self.away, self.asked = 0.0, Positions(), False, 0
        self.silence = Silence(self.told, lambda: self.now)

    def told(self, topics: Collection[str]) -> Positions:
        self.asked += 1
        if self.away:
            raise MillraceError(ErrorCode.UNAVAILABLE, "nobody answers")
        return {topic: ends for topic, ends in self.ends.items() if topic in topics}

    def look(self, positions: Positions, after: float = SILENT) -> list[str]:
        self.now += after
        return self.silence.topics(positions)


def test_what_lay_there_at_two_looks_and_has_not_come_is_silent() -> None:
    one = Asked()
    one.ends = {"a": {0: 5, 1: 2}, "b": {0: 3}}
    assert one.look({"a": {0: 4, 1: 2}, "b": {0: 3}}) == []
    assert one.look({"a": {0: 4, 1: 2}, "b": {0: 3}}) == ["a"]


def test_a_shorter_topic_in_its_place_is_silent_too() -> None:
    one = Asked()
    one.ends = {"a": {0: 2}}
    assert one.look({"a": {0: 4}}) == []
    assert one.look({"a": {0: 4}}) == ["a"]


def test_what_moves_is_not_silent_however_far_behind() -> None:
    one = Asked()
    one.ends = {"a": {0: 100}}
    assert [one.look({"a": {0: at}}) for at in range(5)] == [[]] * 5


def test_what_has_come_only_just_before_the_second_look_is_waited_for() -> None:
    one = Asked()
    one.ends = {"a": {0: 4}}
    assert one.look({"a": {0: 4}}) == []
    one.ends = {"a": {0: 5}}
    assert one.look({"a": {0: 4}}) == []
    assert one.look({"a": {0: 4}}) == ["a"]


def test_nobody_is_asked_before_the_time() -> None:
    one = Asked()
    one.ends = {"a": {0: 5}}
    assert one.look({"a": {0: 4}}, SILENT - 0.1) == []
    assert one.asked == 0
    assert one.look({"a": {0: 4}}, 0.1) == []
    assert one.asked == 1


def test_a_topic_that_is_gone_and_a_broker_that_is_away_are_not_silence() -> None:
    one = Asked()
    assert [one.look({"gone": {0: 4}}) for _ in range(3)] == [[], [], []]
    one.ends = {"a": {0: 5}}
    assert one.look({"a": {0: 4}}) == []
    one.away = True
    assert one.look({"a": {0: 4}}) == []
    one.away = False
    assert one.look({"a": {0: 4}}) == [], "nothing is known of the look before"
    assert one.look({"a": {0: 4}}) == ["a"]
