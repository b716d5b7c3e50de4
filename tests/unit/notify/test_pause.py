"""ON_FAILURE_PAUSE: nothing is lost, the order is kept, and who calculates is told when to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millrace_wal import MemoryLog
from notify_svc import intake as intake_module


def test_a_stream_is_paused_while_its_address_is_away(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.pushing(log, lab.settings()) as pusher:
            lab.write(log, range(10), receiver.port, pause_on_failure=True)
            await lab.until(lambda: lab.paused(log))
            assert lab.paused(log) == {
                7: f"ws://127.0.0.1:{receiver.port}/ cannot be reached; its notifications are waiting"
            }
            assert pusher.state()["paused"] == 1
            async with lab.serving(receiver.port, receiver.handle):
                await lab.until(lambda: receiver.numbers == list(range(10)))
                await lab.until(lambda: not lab.paused(log))
                lab.write(log, range(10, 12), receiver.port, pause_on_failure=True)
                await lab.until(lambda: receiver.numbers == list(range(12)))
        assert lab.unread(log) == []

    asyncio.run(run())


def test_the_pause_outlives_a_kill_and_ends_with_the_delivery(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.pushing(log, lab.settings(), kill=True):
            lab.write(log, range(5), receiver.port, pause_on_failure=True)
            await lab.until(lambda: lab.paused(log))
        assert lab.unread(log) == list(range(5))
        async with lab.pushing(log, lab.settings()):
            # known before the first attempt of the new process fails, and all the time until it works
            for _ in range(20):
                assert lab.paused(log)
                await asyncio.sleep(0.03)
            async with lab.serving(receiver.port, receiver.handle):
                await lab.until(lambda: receiver.numbers == list(range(5)))
                await lab.until(lambda: not lab.paused(log))

    asyncio.run(run())


def test_a_kill_after_the_delivery_does_not_leave_the_stream_paused(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.pushing(log, lab.settings(), kill=True):
            lab.write(log, range(5), receiver.port, pause_on_failure=True)
            await lab.until(lambda: lab.paused(log))
        # one that delivers, and is killed before it tells or commits anything
        async with lab.serving(receiver.port, receiver.handle):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(intake_module, "_REPORT_EVERY", 1e9)
                async with lab.pushing(log, lab.settings(), kill=True):
                    await lab.until(lambda: receiver.numbers == list(range(5)))
            assert lab.paused(log)
            async with lab.pushing(log, lab.settings()):
                await lab.until(lambda: not lab.paused(log))
            # the events came again, in order
            assert receiver.numbers == [*range(5), *range(5)]
        assert lab.unread(log) == []

    asyncio.run(run())


def test_all_addresses_must_have_an_event(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        one, other = lab.Receiver(lab.free_port()), lab.Receiver(lab.free_port())
        async with lab.serving(one.port, one.handle), lab.pushing(log, lab.settings()):
            lab.write(log, range(5), one.port, other.port, pause_on_failure=True)
            await lab.until(lambda: one.numbers == list(range(5)))
            await lab.until(lambda: lab.paused(log))
            await asyncio.sleep(0.5)
            assert lab.paused(log)
            assert lab.unread(log) == list(range(5))
            async with lab.serving(other.port, other.handle):
                await lab.until(lambda: other.numbers == list(range(5)))
                await lab.until(lambda: not lab.paused(log))
            assert one.numbers == list(range(5))

    asyncio.run(run())


def test_other_streams_at_a_dead_address_are_dropped_and_not_paused(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.pushing(log, lab.settings()) as pusher:
            lab.write(log, range(3), receiver.port, pause_on_failure=True, group="1")
            lab.write(log, range(10, 13), receiver.port, uid=8)
            await lab.until(lambda: pusher.waiting == 3)
            await lab.until(lambda: lab.paused(log))
            assert set(lab.paused(log)) == {7}
            async with lab.serving(receiver.port, receiver.handle):
                await lab.until(lambda: receiver.numbers == [0, 1, 2])

    asyncio.run(run())


def test_a_dropped_stream_is_waited_for_no_more(lab: Any, log: MemoryLog) -> None:
    async def run(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(intake_module, "_SWEEP_EVERY", 0.1)
        async with lab.pushing(log, lab.settings()) as pusher:
            lab.write(log, range(3), lab.free_port(), pause_on_failure=True)
            await lab.until(lambda: lab.paused(log))
            await asyncio.sleep(0.5)
            assert pusher.waiting == 3
            lab.stream(log, 7, dropped=True)
            await lab.until(lambda: pusher.waiting == 0)
            await lab.until(lambda: not lab.paused(log))
        assert lab.unread(log) == []

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))


@asynccontextmanager
async def slow_and_quick(lab: Any, log: MemoryLog, **more: Any) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Two receivers and the pusher; 200 events (``more`` of each) wait for the slow one."""
    slow, quick = lab.Receiver(lab.free_port(), held=True), lab.Receiver(lab.free_port())
    chosen = lab.settings(notify_waiting=100, notify_stuck_events=20, notify_patience=0.3)
    async with (
        lab.serving(slow.port, slow.handle),
        lab.serving(quick.port, quick.handle),
        lab.pushing(log, chosen) as pusher,
    ):
        lab.write(log, range(1), quick.port, uid=8, group="1")
        lab.write(log, range(200), slow.port, **more)
        await lab.until(lambda: pusher.waiting == 200 and quick.numbers == [0])
        await asyncio.sleep(0.2)  # the poll that is under way ends
        yield slow, quick, pusher


def test_a_slow_address_does_not_hold_up_others(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        async with slow_and_quick(lab, log) as (slow, quick, pusher):
            lab.write(log, range(200, 500), slow.port)
            lab.write(log, range(1, 500), quick.port, uid=8, group="1")
            await lab.until(lambda: quick.numbers == list(range(500)))
            slow.let_go.set()
            await lab.until(lambda: pusher.waiting == 0)
            # what it got it got in order; once it has caught up it misses nothing more
            assert slow.numbers == sorted(slow.numbers)
            assert 20 <= len(slow.numbers) < 500
            lab.write(log, range(500, 510), slow.port)
            await lab.until(lambda: slow.numbers[-10:] == list(range(500, 510)))

    asyncio.run(run())


def test_a_slow_address_pauses_a_stream_that_must_lose_nothing(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        async with slow_and_quick(lab, log, pause_on_failure=True) as (slow, quick, _):
            lab.write(log, range(200, 300), slow.port, pause_on_failure=True)
            lab.write(log, range(1, 300), quick.port, uid=8, group="1")
            await lab.until(lambda: quick.numbers == list(range(300)))
            await lab.until(lambda: lab.paused(log))
            assert lab.paused(log)[7].endswith("takes its events too slowly; its notifications are waiting")
            slow.let_go.set()
            await lab.until(lambda: slow.numbers == list(range(300)))
            await lab.until(lambda: not lab.paused(log))

    asyncio.run(run())
