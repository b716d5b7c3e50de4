"""notify-svc's intake over a log that fails: what is committed has been delivered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace_core.wire import notices
from millrace_core.wire.topics import CATALOG, DEAD_LETTERS, NOTIFICATIONS, STATUS
from millrace_service.life import Work
from millrace_wal import MemoryLog
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault
from notify_svc import intake as module
from notify_svc.intake import Intake
from notify_svc.network import connector
from notify_svc.pusher import Pusher

from ...conftest import examples
from ...works import Steps
from .conftest import LOGGER, Receiver, free_port, serving, stream, until, write
from .conftest import settings as notify_settings

NONE, BEFORE, AFTER, ENDED = (
    InjectedFault.NONE,
    InjectedFault.BEFORE,
    InjectedFault.AFTER,
    InjectedFault.ENDED,
)
Round = tuple[int, list[InjectedFault], bool]
"""How many notices come, what fails, and whether the receiver gets time to take them."""


class Service:
    """A notify-svc with one receiver. The intake's steps are those of its thread, done in the event loop."""

    def __init__(self, session: aiohttp.ClientSession, receiver: Receiver) -> None:
        self.log = FlakyLog(MemoryLog(), on_commit=self.committed)
        self.log.log.ensure_topics([NOTIFICATIONS, CATALOG, STATUS, DEAD_LETTERS])
        stream(self.log.log, 7)
        self.receiver, self.session = receiver, session
        self.chosen = notify_settings()
        self.pushers: list[Pusher] = []
        self.steps = Steps(self.make)
        self.written = 0
        self.reached: dict[int, int] = {}

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        receiver = Receiver(free_port())
        async with (
            serving(receiver.port, receiver.handle),
            aiohttp.ClientSession(connector=connector(notify_settings())) as session,
        ):
            service = cls(session, receiver)
            yield service
            for pusher in service.pushers:
                await pusher.close()

    def make(self) -> Work:
        self.pushers.append(Pusher(self.chosen, self.session, LOGGER))
        return Intake(self.log, self.chosen, self.pushers[-1], asyncio.get_running_loop(), LOGGER)

    def write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            write(self.log.log, range(number, number + 1), self.receiver.port, group=str(number % 3))
        self.written += count

    async def step(self) -> None:
        self.steps.step()
        for killed in self.pushers[:-1]:
            await killed.close()
        await asyncio.sleep(0)

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        for (topic, partition), offset in offsets.items():
            before = self.reached.get(partition, 0)
            self.reached[partition] = max(before, offset)
            for record in self.log.log.reader({topic: {partition: 0}}).poll(0)[before:offset]:
                (notice,) = notices.decode(record.value or b"").notices
                assert notice.event["n"] in self.receiver.numbers, "committed, and not delivered"  # type: ignore[call-overload]

    @property
    def done(self) -> bool:
        ends = self.log.log.end_offsets(NOTIFICATIONS.name)
        return all(self.reached.get(partition, 0) == end for partition, end in ends.items())


async def play(rounds: list[Round]) -> None:
    async with Service.running() as service:
        for count, what_fails, time_to_take in rounds:
            service.write(count)
            service.log.give(what_fails)
            await service.step()
            if time_to_take:
                have = service.pushers[-1].waiting if service.pushers else 0
                await until(lambda have=have: not have or service.pushers[-1].waiting < have)  # type: ignore[misc]
            await service.step()
        service.log.give([])
        while not service.done:
            await asyncio.wait_for(service.step(), 10)
            await asyncio.sleep(0.001)
        assert set(service.receiver.numbers) == set(range(service.written))


faults = st.lists(st.sampled_from(FAILURES + KILLS), max_size=8)


@settings(max_examples=examples(60))
@example([(3, [NONE] * 12 + [BEFORE], True), (1, [NONE, AFTER], True)])
@example([(3, [], True), (2, [ENDED, NONE, BEFORE], True)])
@given(st.lists(st.tuples(st.integers(0, 4), faults, st.booleans()), min_size=1, max_size=6))
def test_what_is_committed_has_been_delivered(rounds: list[Round]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_POLL", "_REST", "_REPORT_EVERY", "_SWEEP_EVERY"):
            patch.setattr(module, name, 0)
        asyncio.run(play(rounds))
