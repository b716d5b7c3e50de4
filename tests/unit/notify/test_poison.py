"""Poison in every topic that notify-svc reads: a dead letter for each notification; the others arrive."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from millrace_core.wire import dead
from millrace_core.wire.topics import CATALOG, DEAD_LETTERS, NOTIFICATIONS, STATUS
from millrace_wal import MemoryLog, Message, replay

from ...poison import cells

CELLS = [cell for topic in (CATALOG, STATUS, NOTIFICATIONS) for cell in cells(topic)]
WANTED = sum(cell.letters for cell in cells(NOTIFICATIONS))


def test_all_of_it_between_good_notifications(log: MemoryLog, lab: Any) -> None:
    def letters() -> list[dead.DeadLetter]:
        return [dead.decode(record.value or b"") for record in replay(log, DEAD_LETTERS.name)]

    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, lab.settings()):
            lab.write(log, range(1), receiver.port)
            log.append([Message(cell.topic, cell.key, cell.value) for cell in CELLS])
            lab.write(log, range(1, 2), receiver.port)
            await lab.until(lambda: receiver.numbers == [0, 1])
        told = Counter((one.topic, one.service) for one in letters())
        assert told == {(NOTIFICATIONS.name, "notify-svc"): WANTED}
        async with lab.serving(receiver.port, receiver.handle), lab.pushing(log, lab.settings()):
            lab.write(log, range(2, 3), receiver.port)
            await lab.until(lambda: receiver.numbers == [0, 1, 2])
        assert len(letters()) == WANTED

    asyncio.run(run())
