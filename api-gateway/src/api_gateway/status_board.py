"""What trigger-svc and calc-svc say of control records and streams (the ``status`` topic)."""

from __future__ import annotations

import threading
import time

import msgspec

from api_gateway.diagnosis_board import PREFIX, Diagnoses
from api_gateway.follower import POLL_SECONDS
from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.dialect.problems import state_with
from millrace_core.wire import status
from millrace_core.wire.topics import STATUS
from millrace_wal import BEGIN, Log, Record


class StatusBoard:
    """``applied``: the last control record in force; ``failures``: (stream uid, slot of trigger-svc that has
    set it aside, or None for its calculation) -> why it failed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.applied = -1
        self.failures: dict[tuple[int, int | None], str] = {}
        self._pauses: dict[tuple[int, int], str] = {}
        self._problems: dict[bytes, status.Problem] = {}
        self.diagnoses = Diagnoses()

    def take(self, record: Record) -> None:
        """Take in one record of the topic; one of an unknown kind (a newer writer) is passed over."""
        if (record.key or b"").startswith(PREFIX):
            self.diagnoses.take(record.value)
            return
        if record.value is None:
            if (record.key or b"").startswith(status.PAUSED.encode()):
                self._pauses.pop(status.part_of(record.key or b""), None)
            self._problems.pop(record.key or b"", None)
            return
        try:
            found = status.decode(record.value)
        except msgspec.DecodeError:
            return
        with self._changed:
            if isinstance(found, status.Applied):
                self.applied = max(self.applied, found.control)
                self._changed.notify_all()
            elif isinstance(found, status.StreamFailure) and found.message:
                self.failures[found.stream, found.slot] = found.message
            elif isinstance(found, status.StreamFailure):
                self.failures.pop((found.stream, found.slot), None)
            elif isinstance(found, status.Problem):
                self._problems[record.key or b""] = found
            elif isinstance(found, status.StreamPaused):
                self._pauses[found.stream, found.partition] = found.message

    def wait_applied(self, control: int, seconds: float) -> bool:
        """Wait until that control record is in force; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.applied >= control, seconds)

    def set_aside(self, entry: StreamEntry) -> bool:
        """Whether a slot of trigger-svc judges nothing of the stream until it is started again."""
        failures = dict(self.failures)
        return any(uid == entry.spec.uid and slot is not None for uid, slot in failures)

    def of(self, entry: StreamEntry, catalog: Catalog) -> tuple[str, str]:
        """(status, message) of a stream: Failed, Init until trigger-svc knows, then Running, Stopped or,
        while an address that must lose nothing cannot be reached, Paused."""
        return state_with(entry, catalog, list(self._problems.values()), self._alone(entry))

    def _alone(self, entry: StreamEntry) -> tuple[str, str]:
        """The same without what is wrong with the services."""
        failures = dict(self.failures)
        if message := next((why for (uid, _), why in failures.items() if uid == entry.spec.uid), ""):
            return "Failed", message
        if entry.control < 0 or self.applied < entry.control:
            return "Init", ""
        waits = (why for (uid, _), why in list(self._pauses.items()) if uid == entry.spec.uid)
        if entry.wanted == "Running" and (message := next(waits, "")):
            return "Paused", message
        return entry.wanted, ""


class StatusReader:
    """One :meth:`step` takes in what has come."""

    def __init__(self, log: Log, board: StatusBoard) -> None:
        self._reader = log.reader({STATUS.name: {0: BEGIN}})
        self._board = board

    def step(self) -> None:
        for record in self._reader.poll(POLL_SECONDS):
            self._board.take(record)

    def catch_up(self, log: Log, seconds: float = 10) -> None:
        """Read what the topic has now, at start."""
        end, until = log.end_offsets(STATUS.name)[0], time.monotonic() + seconds
        while self._reader.positions()[STATUS.name][0] < end and time.monotonic() < until:
            self.step()

    def close(self) -> None:
        self._reader.close()
