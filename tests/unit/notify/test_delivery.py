"""The state machine of one address: nothing is lost, doubled or reordered, whatever the receiver does."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millrace_core.errors import MillraceError
from millrace_core.notice.delivery import Delivery, Policy
from millrace_core.notice.message import Outgoing

from ...conftest import examples

POLICY = Policy(retries=2, first_pause=1, longest_pause=3, window=2, message_bytes=200)


def event(number: int, keep: bool = False) -> Outgoing:
    return Outgoing("db.s", b'{"n":%d}' % number, keep, number)


def numbers(text: bytes) -> list[int]:
    return [e["n"] for s in json.loads(text)["streams"] for e in s["events"]]


def tickets(events: list[Outgoing]) -> list[object]:
    return [e.ticket for e in events]


def opened(*events: Outgoing) -> Delivery:
    delivery = Delivery(POLICY)
    delivery.offer(events)
    delivery.connected()
    return delivery


def test_nothing_to_deliver_needs_no_connection() -> None:
    delivery = Delivery(POLICY)
    assert delivery.connect_in(0) is None
    delivery.offer([event(1)])
    assert delivery.connect_in(0) == 0
    delivery.connected()
    assert delivery.connect_in(0) is None


def test_what_waits_goes_in_one_message() -> None:
    delivery = opened(event(1), event(2), event(3))
    message = delivery.take("id", 5)
    assert message is not None
    assert numbers(message.text) == [1, 2, 3]
    assert json.loads(message.text)["messageId"] == "id"
    assert delivery.take("id", 5) is None
    assert tickets(delivery.acknowledged(message.number)) == [1, 2, 3]
    assert delivery.idle


def test_only_a_window_of_messages_is_under_way() -> None:
    delivery = Delivery(POLICY)
    delivery.connected()
    sent = []
    for number in range(3):
        delivery.offer([event(number)])
        sent.append(delivery.take(f"m{number}", 0))
    assert sent[0] is not None
    assert sent[2] is None
    assert tickets(delivery.acknowledged(sent[0].number)) == [0]
    third = delivery.take("m2", 0)
    assert third is not None
    # one confirmation covers all messages before
    assert tickets(delivery.acknowledged(third.number)) == [1, 2]


def test_an_unconfirmed_message_is_sent_again_as_it_was() -> None:
    delivery = opened(event(1))
    first = delivery.take("first", 1)
    assert delivery.lost(10) == []
    delivery.offer([event(2)])
    assert delivery.connect_in(10) == 1
    delivery.connected()
    assert delivery.take("second", 2) == first
    second = delivery.take("second", 2)
    assert second is not None
    assert numbers(second.text) == [2]
    # nothing was confirmed over the new connection by a late answer to the old one's number 7
    assert delivery.acknowledged(0) == []


def test_the_pause_doubles_up_to_the_longest() -> None:
    delivery = opened(event(1, keep=True))
    pauses = []
    for _ in range(4):
        delivery.lost(100)
        pauses.append(delivery.connect_in(100))
        delivery.connected()
    assert pauses == [1, 2, 3, 3]
    message = delivery.take("id", 0)
    assert message is not None
    delivery.acknowledged(message.number)
    assert not delivery.failing
    delivery.offer([event(2)])
    delivery.lost(200)
    assert delivery.connect_in(200) == 1


def test_a_receiver_that_opens_but_never_confirms_is_failing() -> None:
    delivery = opened(event(1))
    dropped: list[Outgoing] = []
    for now in range(3):
        delivery.take("id", 0)
        assert dropped == []
        dropped = delivery.lost(now)
        delivery.connected()
    assert tickets(dropped) == [1]


def test_a_failing_address_gets_one_attempt_for_what_comes_later() -> None:
    delivery = opened(event(1))
    for now in range(3):
        delivery.lost(now)
    delivery.offer([event(2), event(3)])
    assert delivery.connect_in(100) == 0
    assert tickets(delivery.lost(100)) == [2, 3]


def test_events_to_keep_stay_in_order_while_others_are_dropped() -> None:
    delivery = opened(event(1), event(2, keep=True))
    delivery.take("a", 0)
    delivery.offer([event(3, keep=True), event(4)])
    dropped: list[object] = []
    for now in range(9):
        dropped += tickets(delivery.lost(now))
    assert dropped == [1, 4]
    delivery.connected()
    message = delivery.take("b", 0)
    assert message is not None
    assert numbers(message.text) == [2, 3]


def test_closing_an_idle_connection_is_no_failure() -> None:
    delivery = opened()
    assert delivery.lost(0) == []
    assert not delivery.failing


def test_connecting_twice_is_refused() -> None:
    with pytest.raises(MillraceError):
        opened().connected()


def test_a_slow_address_has_room_for_the_oldest_and_for_what_must_be_kept() -> None:
    delivery = Delivery(Policy(stuck_events=2))
    assert delivery.offer([event(n, keep=n == 4) for n in range(6)]) == []
    assert tickets(delivery.slow_down()) == [2, 3, 5]
    assert delivery.stuck
    assert tickets(delivery.offer([event(6), event(7, keep=True)])) == [6]
    delivery.connected()
    message = delivery.take("id", 0)
    assert message is not None
    assert tickets(delivery.acknowledged(message.number)) == [0, 1, 4, 7]
    assert not delivery.stuck
    assert delivery.offer([event(n) for n in range(8, 20)]) == []


def test_a_slow_address_has_caught_up_when_half_of_its_room_is_free() -> None:
    delivery = Delivery(Policy(stuck_events=4, window=1, message_bytes=1))
    delivery.connected()
    delivery.offer([event(n) for n in range(5)])
    assert tickets(delivery.slow_down()) == [4]
    for waiting, slow in ((3, True), (2, False), (1, False)):
        before = delivery.slow
        message = delivery.take("id", 0)
        assert message is not None and delivery.waiting == waiting + 1
        delivery.acknowledged(message.number - 1)
        assert delivery.slow is before, "nothing new is confirmed"
        delivery.acknowledged(message.number)
        assert delivery.slow is slow
    assert delivery.offer([event(n) for n in range(5, 15)]) == []
    message = delivery.take("id", 0)
    assert message is not None and delivery.acknowledged(message.number)
    assert not delivery.slow, "it has to be told again"


def test_what_need_not_be_kept_any_more_is_dropped_under_way_too() -> None:
    delivery = opened(event(1, keep=True))
    delivery.take("a", 0)
    delivery.offer([event(2, keep=True), event(3, keep=True)])
    delivery.release(lambda ticket: ticket != 2)
    dropped: list[object] = []
    for now in range(4):
        dropped += tickets(delivery.lost(now))
    assert dropped == [1, 3]
    assert tickets(list(delivery.undelivered())) == [2]


class Address(RuleBasedStateMachine):
    """Random life of an address."""

    def __init__(self) -> None:
        super().__init__()
        self.delivery = Delivery(POLICY)
        self.now = 0.0
        self.count = 0
        self.kept: set[int] = set()
        self.out: list[int] = []
        self.delivered: list[int] = []
        self.dropped: list[int] = []
        self.received: list[int] = []
        self.number = 0
        self.open = False

    @rule(keep=st.lists(st.booleans(), max_size=30))
    def offer(self, keep: list[bool]) -> None:
        for flag in keep:
            self.delivery.offer([event(self.count, flag)])
            if flag:
                self.kept.add(self.count)
            self.count += 1

    @precondition(lambda self: self.delivery.connect_in(self.now) is not None)
    @rule()
    def connect(self) -> None:
        self.now += self.delivery.connect_in(self.now) or 0
        assert self.delivery.connect_in(self.now) == 0
        self.delivery.connected()
        self.open, self.received = True, []

    @rule()
    def take(self) -> None:
        message = self.delivery.take("id", 0)
        if message is not None:
            assert self.open
            self.number = message.number
            self.received += numbers(message.text)
            assert self.received == sorted(set(self.received))

    @rule(back=st.integers(0, 3))
    def acknowledge(self, back: int) -> None:
        events = self.delivery.acknowledged(self.number - back)
        assert set(tickets(events)) <= set(self.received)
        self.delivered += tickets(events)  # type: ignore[arg-type]

    @rule()
    def lose(self) -> None:
        self.dropped += tickets(self.delivery.lost(self.now))  # type: ignore[arg-type]
        self.open = False

    @invariant()
    def each_event_leaves_once(self) -> None:
        left = self.delivered + self.dropped
        assert len(left) == len(set(left))
        assert self.delivered == sorted(self.delivered)
        assert not self.kept & set(self.dropped)
        assert self.delivery.idle == (len(left) == self.count)

    def teardown(self) -> None:
        self.lose()
        while not self.delivery.idle:
            self.delivery.connected()
            message = self.delivery.take("id", 0)
            assert message is not None
            self.delivered += tickets(self.delivery.acknowledged(message.number))  # type: ignore[arg-type]
            self.dropped += tickets(self.delivery.lost(self.now))  # type: ignore[arg-type]
        assert sorted(self.delivered + self.dropped) == list(range(self.count))
        assert self.delivered == sorted(self.delivered)


TestAddress = Address.TestCase
TestAddress.settings = settings(max_examples=examples(150), stateful_step_count=40)


def test_one_failure_is_failing() -> None:
    delivery = opened(event(1))
    assert not delivery.failing
    delivery.lost(0)
    assert delivery.failing


def test_messages_are_numbered_one_by_one() -> None:
    delivery = opened(event(1))
    first = delivery.take("a", 0)
    delivery.offer([event(2)])
    second = delivery.take("b", 0)
    assert first is not None and second is not None
    assert second.number == first.number + 1
