"""What trigger-svc and calc-svc say about control records and streams (the ``status`` topic)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import structlog

from api_gateway.watching.diagnosis_board import Diagnoses
from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.errors import WireError
from millrace_core.problems import state_with
from millrace_core.wire import status
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.topics import STATUS
from millrace_service import behind, passed_over
from millrace_wal import BEGIN, DeadLetters, Log, Reader, Record

POLL_SECONDS = 1.0


class StatusBoard:
    """``applied``: the last control record that is in force; ``failures``: (stream uid, slot of trigger-svc
    that has set the stream aside, or None for its calculation) -> why it failed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.applied = -1
        self.failures: dict[tuple[int, int | None], str] = {}
        self._pauses: dict[tuple[int, int], str] = {}
        self._problems: dict[bytes, status.Problem] = {}
        self._stalled: dict[bytes, status.Problem] = {}
        self.diagnoses = Diagnoses()

    def take(self, record: Record) -> None:
        """Take in one record of the topic.

        :raises WireError: for a record that this version cannot read, such as one from a newer writer.
        """
        found = status.read(record.key, record.value)
        if isinstance(found, Diagnosis):
            self.diagnoses.take(found)
            return
        if found is None:
            if (record.key or b"").startswith(status.PAUSED.encode()):
                self._pauses.pop(status.part_of(record.key or b""), None)
            self._problems.pop(record.key or b"", None)
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
        """Wait until that control record is in force; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.applied >= control, seconds)

    def set_aside(self, entry: StreamEntry) -> bool:
        """Whether some slot of trigger-svc evaluates nothing of the stream until it is started again."""
        failures = dict(self.failures)
        return any(uid == entry.spec.uid and slot is not None for uid, slot in failures)

    def stalled(self, now: Mapping[bytes, status.Problem]) -> dict[bytes, status.Problem]:
        """Set what has stalled now, by key; returns what had stalled before, as far as this board knew."""
        before = {key: one for key, one in list(self._problems.items()) if one.stalled_since}
        before |= self._stalled
        self._stalled = dict(now)
        return before

    def of(self, entry: StreamEntry, catalog: Catalog) -> tuple[str, str]:
        """(status, message) of a stream: Failed; Init until trigger-svc knows it; then Running, Stopped or,
        while an address that must lose nothing cannot be reached, Paused."""
        problems = [one for one in list(self._problems.values()) if not one.stalled_since]
        problems += self._stalled.values()
        return state_with(entry, catalog, problems, self._alone(entry))

    def _alone(self, entry: StreamEntry) -> tuple[str, str]:
        """The same, leaving out what is wrong with the services."""
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
    """Takes in what comes in the topic; a work of :class:`millrace_service.Life`."""

    def __init__(self, log: Log, board: StatusBoard) -> None:
        self.name, self.stopping = "status", threading.Event()
        self._log, self._board = log, board
        # calc-svc makes the dead letters
        self._dead = DeadLetters(log, "api-gateway", passed_over(structlog.get_logger("api-gateway")))
        self._reader: Reader | None = None
        self._at = BEGIN

    def begin(self) -> None:
        self._reader = self._log.reader({STATUS.name: {0: self._at}})

    def step(self) -> None:
        assert self._reader is not None, "begin comes first"
        for record in self._reader.poll(POLL_SECONDS):
            try:
                self._board.take(record)
            except WireError as error:
                self._dead.bury(record, error)
        self._at = self._reader.positions()[STATUS.name][0]

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self) -> tuple[object, str]:
        """How far the topic has been read, and what lies beyond."""
        return self._at, behind(STATUS.name, self._log.end_offsets(STATUS.name), {0: max(self._at, 0)})

    def catch_up(self, seconds: float = 10) -> None:
        """Read what the topic holds now, before the thread begins."""
        end, until = self._log.end_offsets(STATUS.name)[0], time.monotonic() + seconds
        self.begin()
        while self._at < end and time.monotonic() < until:
            self.step()
        self.end()
