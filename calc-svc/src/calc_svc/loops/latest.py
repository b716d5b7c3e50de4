"""Reads from the log what live triggers have told, beside the answers that are calculated
(``millrace_core.recalc.latest``)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress

from calc_svc.store.catalog import CatalogView
from millrace_core.calc.overtaking import Batches
from millrace_core.errors import MillraceError, WireError
from millrace_core.recalc.latest import Latest, may_be_outdated
from millrace_core.timeline.precision import milliseconds
from millrace_core.wire.events import ANSWERING, BATCHES, TriggerBatch, answers_request
from millrace_core.wire.topics import TRIGGERS, stream_in
from millrace_wal import Log, Reader, up_to

SKEW_MS = 10_000
"""How far the clocks of different machines may differ."""


class LatestReader:
    """Used by one thread. ``stopping``: ends a reading early."""

    def __init__(self, log: Log, catalog: CatalogView, stopping: threading.Event) -> None:
        self._log, self._catalog, self._stopping = log, catalog, stopping
        self._latest = Latest()
        self._reader: Reader | None = None
        self._since = 0
        """The time (ms) from which on everything that was told has been read."""

    def corrected(self, batches: Batches) -> Batches:
        """These batches; the answers among them take over what live triggers have told since.

        :raises MillraceError: if the log cannot be read.
        """
        answers = [one for uid, some in batches.items() if self._of_interest(uid) for one in some]
        answers = [one for one in answers if one.slot == ANSWERING and one.events]
        if not answers:
            return batches
        try:
            self._read(max(_asked(answers) - SKEW_MS, 0))
        except MillraceError:
            self.close()
            raise
        return {uid: [self._latest.corrected(one) for one in some] for uid, some in batches.items()}

    def close(self) -> None:
        """Forget everything; it is read anew when needed."""
        if self._reader is not None:
            self._reader.close()
        self._reader, self._latest = None, Latest()

    def _of_interest(self, uid: int) -> bool:
        entry = self._catalog.stream(uid)
        return entry is not None and may_be_outdated(entry.spec)

    def _read(self, since: int) -> None:
        """Read what was told from then up to now."""
        if self._reader is None or since < self._since:
            self.close()
            self._since = since
            self._reader = self._log.reader({TRIGGERS.name: self._log.offsets_at(TRIGGERS.name, since)})
        ends = self._log.end_offsets(TRIGGERS.name)
        for record in up_to(self._reader, TRIGGERS.name, ends, self._stopping):
            if answers_request(record.key) or not self._of_interest(stream_in(record.key)):
                continue
            with suppress(WireError):  # the loop for live triggers makes a dead letter of it
                self._latest.hear(BATCHES.read(record.key, record.value))


def _asked(answers: Iterable[TriggerBatch]) -> int:
    """When the first of these was asked for (ms): nothing that was told before that is newer than it."""
    return milliseconds(min(event.localtime for one in answers for event in one.events))
