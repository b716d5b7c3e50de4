"""The slots' answers to DIAGNOSE STREAM, kept for whoever waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from millrace_core.wire.diagnosis import Diagnosis


class Diagnoses:
    """Thread-safe. Answers are kept only while somebody is listening: nobody needs old ones."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listening = 0
        self._parts: dict[tuple[int, int], Diagnosis] = {}

    def take(self, part: Diagnosis) -> None:
        """Take in one answer."""
        with self._changed:
            if self._listening:
                self._parts[part.control, part.slot] = part
                self._changed.notify_all()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answers that come meanwhile are kept. Begin this before the question is asked."""
        with self._changed:
            self._listening += 1
        try:
            yield
        finally:
            with self._changed:
                self._listening -= 1
                if not self._listening:
                    self._parts.clear()

    def wait(self, control: int, slots: int, seconds: float) -> list[Diagnosis]:
        """The slots' answers to this control record that came within the time, ordered by slot."""
        until = time.monotonic() + seconds
        with self._changed:
            while len(found := self._of(control)) < slots and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
        return [found[slot] for slot in sorted(found)]

    def _of(self, control: int) -> dict[int, Diagnosis]:
        return {slot: part for (number, slot), part in self._parts.items() if number == control}
