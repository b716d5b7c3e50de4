"""Trigger events and result rows as they come out of their topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.stage import BenchError
from bench.workload import Window, rows_of
from millrace_core.timeline.text import parse_timestamp
from millrace_core.wire import events
from millrace_core.wire.topics import TRIGGERS
from millrace_wal import BEGIN, KafkaLog, Reader, Record


def read_all(log: KafkaLog, topic: str) -> Reader:
    """A reader of a topic from its beginning."""
    return log.reader({topic: dict.fromkeys(log.end_offsets(topic), BEGIN)})


@dataclass
class Triggers:
    """The closing events of windows that came so far.

    The rows in each window, when it was seen (``perf_counter``), and the time of the last message (ms since
    the epoch, as its producer set it).
    """

    reader: Reader
    rows: dict[Window, int] = field(default_factory=dict)
    seen: dict[Window, float] = field(default_factory=dict)
    last_ms: int = 0

    def take(self, timeout: float) -> None:
        """Takes in what comes within ``timeout`` seconds. :raises BenchError: if a window closes twice under
        different figures."""
        for record in self.reader.poll(timeout):
            now = time.perf_counter()
            self._note(record, now)

    def _note(self, record: Record, now: float) -> None:
        for event in events.decode(record.value or b"").events:
            if event.kind != "CLOSE" or event.group.table is None:
                continue
            window = (event.group.table, event.start)
            if self.rows.setdefault(window, event.rownum) != event.rownum:
                raise BenchError(f"window {window} closed with {self.rows[window]} and {event.rownum} rows")
            self.seen.setdefault(window, now)
            self.last_ms = max(self.last_ms, record.timestamp)


def triggers(log: KafkaLog) -> Triggers:
    """The trigger events from now on."""
    return Triggers(log.reader({TRIGGERS.name: log.end_offsets(TRIGGERS.name)}))


class InBackground:
    """Calls ``work`` over and over in a thread; an error in it is raised at the end of the block."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except Exception as error:
                self._error = error
                return

    def __enter__(self) -> InBackground:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        if self._error is not None:
            raise self._error


@dataclass
class Results:
    """Result rows of a stream so far, by table and window start (columns ``who`` and ``ts``), and the time of
    the last message."""

    reader: Reader
    rows: dict[Window, dict[str, Any]] = field(default_factory=dict)
    last_ms: int = 0

    def take(self, timeout: float) -> None:
        """Takes in what comes within ``timeout`` seconds."""
        for record in self.reader.poll(timeout):
            for row in rows_of(record.value):
                ts = row["ts"] if isinstance(row["ts"], int) else parse_timestamp(row["ts"], "ms")
                self.rows[row["who"], ts] = row
                self.last_ms = max(self.last_ms, record.timestamp)
