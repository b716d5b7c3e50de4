"""What notify-svc counts of each stream, in the ``status`` topic."""

from __future__ import annotations

import asyncio
from typing import Any

from millrace_core.wire import status
from millrace_core.wire.counters import combined
from millrace_core.wire.topics import STATUS
from millrace_wal import BEGIN, MemoryLog


def counted(log: MemoryLog, uid: int = 7) -> dict[str, int]:
    """The counters of the stream that its messages name."""
    reader = log.reader({STATUS.name: {0: BEGIN}})
    last: dict[bytes, status.AnyStatus] = {}
    while records := reader.poll(0.01):
        for record in records:
            if record.value is not None:
                last[record.key or b""] = status.decode(record.value)
    reader.close()
    return combined(one for one in last.values() if isinstance(one, status.Counters)).get(uid, {})


def test_deliveries_are_counted_per_address_and_over_restarts(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        one, other = lab.Receiver(lab.free_port()), lab.Receiver(lab.free_port())
        async with lab.serving(one.port, one.handle), lab.serving(other.port, other.handle):
            async with lab.pushing(log, lab.settings()):
                lab.write(log, range(3), one.port, other.port)
                await lab.until(lambda: len(one.numbers) == len(other.numbers) == 3)
            assert counted(log) == {"notify_delivered": 6}
            async with lab.pushing(log, lab.settings()):
                lab.write(log, range(3, 5), one.port)
                await lab.until(lambda: len(one.numbers) == 5)
        assert counted(log) == {"notify_delivered": 8}

    asyncio.run(run())


def test_drops_are_counted_by_cause(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        async with lab.pushing(log, lab.settings()) as pusher:
            lab.write(log, range(2), lab.free_port())
            await lab.until(lambda: pusher.accepted > 0 and pusher.waiting == 0)
            await lab.until(lambda: counted(log) != {})
        assert counted(log) == {"notify_unreached": 2}

    asyncio.run(run())
