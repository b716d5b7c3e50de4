"""Which stream an exception belongs to: what one stream raises must not stop the others in its slot.

A slot does everything for a stream under :meth:`Blame.of`. An exception raised there is noted and the slot
goes on, so that one run finds all streams that fail. Nothing from such a run is used: ``slot.isolation`` runs
the batch again without these streams.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from millrace_core.errors import MillraceError


class StreamsFail(Exception):
    """Streams that raised in a batch. ``causes``: their uids -> what was raised, and where."""

    def __init__(self, causes: dict[int, str]) -> None:
        super().__init__("; ".join(f"stream {uid}: {cause}" for uid, cause in causes.items()))
        self.causes = causes


class Blame:
    """What was raised in one batch, by stream."""

    def __init__(self) -> None:
        self._own: dict[int, str] = {}
        self._shared: dict[int, str] = {}
        self._first: Exception | None = None

    def of(self, uid: int) -> Watch:
        """A context: an exception raised in it is blamed on this stream, and goes no further."""
        return Watch(self, (uid,), self._own)

    def of_all(self, uids: Iterable[int]) -> Watch:
        """The same for work that is done for several streams at once, any of which may be at fault. All of
        them are blamed only if none raises on its own."""
        return Watch(self, tuple(uids), self._shared)

    def settle(self) -> None:
        """:raises StreamsFail: if anything was raised."""
        if self._first is not None:
            raise StreamsFail(self._own or self._shared) from self._first

    def note(self, error: Exception, uids: Iterable[int], causes: dict[int, str]) -> None:
        self._first = self._first or error
        for uid in uids:
            causes.setdefault(uid, described(error))


class Watch:
    """One use of :class:`Blame`. It is a class because a generator would cost ten times as much."""

    __slots__ = ("_blame", "_causes", "_uids")

    def __init__(self, blame: Blame, uids: tuple[int, ...], causes: dict[int, str]) -> None:
        self._blame, self._uids, self._causes = blame, uids, causes

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, MemoryError) or not self._uids:
            return False  # running out of memory is not a stream's fault: the batch is tried again
        self._blame.note(error, self._uids, self._causes)
        return True


def described(error: Exception) -> str:
    """Type, message and place: ``ZeroDivisionError: division by zero (grid.py:51, windows)``. For an error of
    ours only its message, which says all there is to say."""
    if isinstance(error, MillraceError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno}, {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
