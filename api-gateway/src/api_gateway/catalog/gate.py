"""A gate that many may pass together, or one alone: inserts together, whoever removes a table alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Whoever wants to be alone goes before those who come later, and so cannot starve."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._inside)
                self._alone = True
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
