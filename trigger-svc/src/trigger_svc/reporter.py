"""How far the trigger query is, for whoever asks the status topic; and the ticks on which counters are told.

Slots count rows, but tell of them only when a tick comes (``trigger.stream.STEADY``): telling with each batch
would make more messages than a quiet stream triggers. So once a second, if the query has read anything but
ticks since, a tick is written on which nothing fires. The last one comes after the last row: totals are
complete a second or two after it. An idle query gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structlog.typing import FilteringBoundLogger

from millrace_core.wire import status
from millrace_core.wire.status import ReadUpTo
from millrace_core.wire.topics import CLOCK, STATUS, WAL_PREFIX
from millrace_wal import Log, Message
from trigger_svc.background import Background
from trigger_svc.clock import Ends, ends_of, idle_tick

EVERY = 1.0


def moved(before: Mapping[str, Mapping[int, int]], now: Ends) -> Ends:
    """The topics that were read further, ticks apart."""
    return {topic: ends for topic, ends in now.items() if topic != CLOCK.name and before.get(topic) != ends}


class Reporter(Background):
    """Reports once a second. ``progress``: gives the query's last report, or None; ``instance``:
    the process, for people."""

    def __init__(
        self, log: Log, progress: Callable[[], Any], instance: str, logger: FilteringBoundLogger
    ) -> None:
        super().__init__("reporter", logger, "the query's progress is not reported", 2 * EVERY, pause=0)
        self._log, self._progress, self._instance = log, progress, instance
        self._told: Ends = {}

    def _work(self) -> None:
        if not self._stopping.wait(EVERY):
            self.step()

    def step(self) -> None:
        """Write what has changed since the last step.

        :raises MillraceError: if the log cannot be written; the next step says the same again.
        """
        now = ends_of(self._progress())
        news = moved(self._told, now)
        if not news:
            return
        reports = [
            ReadUpTo(topic, ends, self._instance)
            for topic, ends in news.items()
            if topic.startswith(WAL_PREFIX)
        ]
        messages = [Message(STATUS.name, status.key(one), status.encode(one)) for one in reports]
        gone = [topic for topic in self._told if topic.startswith(WAL_PREFIX) and topic not in now]
        messages += [Message(STATUS.name, status.key(ReadUpTo(topic, {})), None) for topic in gone]
        if messages:
            self._log.append(messages)
        idle_tick(self._log)
        self._told = now
