"""Which streams are being calculated, and which have taken too much, in files that outlive the process.

If the process, or its Spark, ends in the middle of a calculation, that calculation may have ended it. A
stream that was being calculated at two such ends, and was not calculated successfully in between, is
calculated apart from then on, where it can end nothing but itself (decision 0076).
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

PLACES = 256
"""How many queries can be noted at a time: more than run side by side."""
ENDS = 2
"""After so many ends of the process in a row, what was being calculated at each of them is kept apart."""
APART_SECONDS = 600.0
"""How long a stream is calculated apart after it has taken too much."""
_PLACE = struct.Struct("<Q")


class Offences(msgspec.Struct):
    """By stream (its uid). ``ends``: at how many ends in a row it was being calculated; ``apart``: until when
    it is calculated apart (seconds since the epoch)."""

    ends: dict[int, int] = msgspec.field(default_factory=dict)
    apart: dict[int, float] = msgspec.field(default_factory=dict)


class Note:
    """Thread-safe. The operating system keeps what is written here when the process ends, so no calculation
    has to wait for a disk. What is lost when the machine loses its power does not matter: no calculation has
    caused that end."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        """Also takes note of what was being calculated when the last process ended."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._now = folder / "calc-offences.json", now
        self._lock = threading.Lock()
        with (folder / "calc-in-work").open("a+b") as file:
            file.truncate(PLACES * _PLACE.size)
            self._places = mmap.mmap(file.fileno(), PLACES * _PLACE.size)
        found = {uid - 1 for (uid,) in _PLACE.iter_unpack(self._places[:]) if uid}
        self._places[:] = bytes(len(self._places))
        self._free = list(range(PLACES))
        self._work: dict[int, int] = {}
        self._offences = self._read()
        if found or self._offences.ends:
            self._ended(found)

    def _read(self) -> Offences:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._file.read_bytes(), type=Offences)
        return Offences()

    def _ended(self, in_work: set[int]) -> None:
        ends = {uid: self._offences.ends.get(uid, 0) + 1 for uid in in_work}
        self._offences.ends = {uid: count for uid, count in ends.items() if count < ENDS}
        until = self._now() + APART_SECONDS
        self._offences.apart |= {uid: until for uid, count in ends.items() if count >= ENDS}
        self._write()

    def _write(self) -> None:
        now = self._now()
        self._offences.apart = {uid: until for uid, until in self._offences.apart.items() if until > now}
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self._offences))
        new.replace(self._file)

    @contextmanager
    def in_work(self, uid: int, lives: Callable[[], bool]) -> Iterator[None]:
        """The stream is being calculated. If Spark does not survive that (``lives``), the note stays."""
        with self._lock:
            place = self._free.pop() if self._free else None
            self._work[uid] = self._work.get(uid, 0) + 1
            if place is not None:
                _PLACE.pack_into(self._places, place * _PLACE.size, uid + 1)
        done = False
        try:
            yield
            done = True
        finally:
            if lives():
                self._over(uid, place, done)

    def _over(self, uid: int, place: int | None, done: bool) -> None:
        with self._lock:
            self._work[uid] -= 1
            if not self._work[uid]:
                del self._work[uid]
            if place is not None:
                _PLACE.pack_into(self._places, place * _PLACE.size, 0)
                self._free.append(place)
            if done and self._offences.ends.pop(uid, None) is not None:
                self._write()

    def is_alone(self, uid: int) -> bool:
        """Whether no other stream is being calculated."""
        with self._lock:
            return set(self._work) == {uid}

    def take_apart(self, uid: int) -> None:
        """The stream has taken too much: it is calculated apart for a while."""
        with self._lock:
            self._offences.apart[uid] = self._now() + APART_SECONDS
            self._write()

    def is_apart(self, uid: int) -> bool:
        """Whether the stream is to be calculated apart."""
        until = self._offences.apart.get(uid)
        return until is not None and until > self._now()

    def apart(self) -> dict[int, float]:
        """The streams that are calculated apart, and until when (seconds since the epoch)."""
        now = self._now()
        return {uid: until for uid, until in list(self._offences.apart.items()) if until > now}
