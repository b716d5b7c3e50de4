"""The states of the slots on disk, and how far they have evaluated the log: all that a restart needs.

A *generation* is a list that names, for each slot, the file with its state, and the positions in the log up
to which these states have evaluated it. Writing one leaves the files of unchanged slots as they are. The
generation before it stays until the next one is on the disk (decision 0037), so a start always finds a
complete one.

If a state that the list names is missing or incomplete, that is an error. It is never taken for a slot
without a state: the windows that were open in it would be lost silently.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.trigger.slot import Slot

SUFFIX, LIST, CUTS = ".state", ".slots", ".cuts"
_MAGIC, _VERSION, _LIST_VERSION = b"MLRS", 1, 2
_HEAD = struct.Struct("<4sBHHqqI")
"""Magic, version of this header, number of slots, slot, generation, length and CRC-32 of the state."""
Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the first offset that was not evaluated."""
BEGIN_ANEW = (
    "restore the folder {folder} from a copy that was made while trigger-svc was stopped, or move it away "
    "and let trigger-svc start afresh: it then reads the topics from their first kept offsets, closed "
    "windows are triggered again with the same ids, and RECALCULATE STREAM covers what is older than the "
    "topics"
)


class StateError(MillraceError):
    """The states on disk are damaged, or belong to another deployment. Somebody has to repair them."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INTERNAL, message)


class Generation(msgspec.Struct, frozen=True):
    """Which states the slots have, and after which messages.

    ``batches``: by slot, the generation that wrote its state last (None: none has). ``positions``: of all
    that is read, the first offsets that were not evaluated; None in a list from before they were kept.
    ``number``: -1 before the first generation.
    """

    slots: int
    batches: list[int | None]
    version: int = _LIST_VERSION
    positions: Positions | None = None
    number: int = -1


class SlotStates:
    """``folder``: shared by the driver and all workers; ``slots``: how many there are."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder, self._slots = folder, slots

    # ------------------------------------------------------------------ reading

    def read(self, slot: int, generation: Generation) -> bytes | None:
        """The state of a slot; None if it has none yet.

        :raises StateError: if it is missing, damaged or from another number of slots.
        """
        number = generation.batches[slot]
        if number is None:
            return None
        state = self._state(slot, number)
        try:
            return Slot.current(state)
        except ValueError as error:
            raise self._error(f"{self._path(slot, number)}: {error}") from error

    def latest(self) -> Generation:
        """The last generation that was listed.

        :raises StateError: if that is not known, or is from another number of slots.
        """
        known = self._numbers(self._folder, LIST)
        if not known:
            return self._unlisted()
        found = _generation(self._folder / f"{known[-1]}{LIST}")
        if found.slots != self._slots:
            raise self._other_number(found.slots)
        return msgspec.structs.replace(found, number=known[-1])

    def check(self) -> Generation:
        """Read all that the next start will use, and remove unfinished files that are newer. No other process
        may use the folder meanwhile.

        :raises StateError: as :meth:`read`.
        """
        found = self.latest()
        for slot in range(self._slots):
            self.read(slot, found)
        for folder in (self._folder, *(self._folder / str(slot) for slot in range(self._slots))):
            for path in folder.glob("*.*"):
                if path.suffix not in (SUFFIX, LIST, CUTS) or (
                    path.suffix != CUTS and int(path.stem) > found.number
                ):
                    path.unlink(missing_ok=True)
        return found

    def _state(self, slot: int, generation: int) -> bytes:
        path = self._path(slot, generation)
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            raise self._error(f"{path}, the state of slot {slot}, is missing") from None
        if not found.startswith(_MAGIC):
            return self._headless(path, slot, found)
        if len(found) < _HEAD.size:
            raise self._error(f"{path} is damaged: it has only {len(found)} bytes")
        _, version, slots, number, batch, length, crc = _HEAD.unpack_from(found)
        if version != _VERSION:
            raise self._error(f"{path} has version {version}, but this Millrace reads version {_VERSION}")
        state = found[_HEAD.size :]
        if len(state) != length or zlib.crc32(state) != crc or (number, batch) != (slot, generation):
            raise self._error(
                f"{path} is damaged: it has {len(state)} of {length} bytes, or not those that were written"
            )
        if slots != self._slots:
            raise self._other_number(slots)
        return state

    def _headless(self, path: Path, slot: int, found: bytes) -> bytes:
        """A state that was written before files had a header; it has no checksum, but must be readable."""
        try:
            number, slots = Slot.place(Slot.current(found))
        except ValueError as error:
            raise self._error(f"{path} is damaged: {error}") from error
        if slots != self._slots:
            raise self._other_number(slots)
        if number != slot:
            raise self._error(f"{path} is the state of slot {number}, not of slot {slot}")
        return found

    def _unlisted(self) -> Generation:
        """The generation for states from before there were lists."""
        found: list[int | None] = [None] * self._slots
        for folder in self._folder.glob("*"):
            numbers = self._numbers(folder, SUFFIX)
            if not numbers or not folder.name.isdecimal():
                continue
            slot = int(folder.name)
            if slot >= self._slots:
                raise self._other_number(f"more than {slot}")
            found[slot] = numbers[-1]
        number = max((one for one in found if one is not None), default=-1)
        return Generation(self._slots, found, number=number)

    # ------------------------------------------------------------------ writing

    def write(self, slot: int, number: int, state: bytes, before: Generation) -> None:
        """Write the state of a slot in this generation; it is on disk when this returns. The file exists
        completely or not at all. The slot's file of ``before``, the last generation that was listed, stays;
        older ones are removed."""
        folder = self._folder / str(slot)
        known = self._numbers(folder, SUFFIX)
        head = _HEAD.pack(_MAGIC, _VERSION, self._slots, slot, number, len(state), zlib.crc32(state))
        write_durably(self._path(slot, number), head + state)
        for old in known:
            if old < number and old != before.batches[slot]:
                self._path(slot, old).unlink(missing_ok=True)

    def seal(self, before: Generation, number: int, positions: Positions) -> Generation:
        """All slots that have changed since ``before`` have written their states in the generation
        ``number``: list it, and forget those before ``before``. The list is on disk when this returns."""
        changed = {slot for slot in range(self._slots) if self._path(slot, number).exists()}
        batches = [number if slot in changed else known for slot, known in enumerate(before.batches)]
        found = Generation(self._slots, batches, positions=positions, number=number)
        text = msgspec.json.encode(found)
        write_durably(self._folder / f"{number}{LIST}", b"%s\n%08x\n" % (text, zlib.crc32(text)))
        for old in self._numbers(self._folder, LIST):
            if old < before.number:
                (self._folder / f"{old}{LIST}").unlink(missing_ok=True)
        return found

    # ------------------------------------------------------------------ files

    def _path(self, slot: int, batch: int) -> Path:
        return self._folder / str(slot) / f"{batch}{SUFFIX}"

    @staticmethod
    def _numbers(folder: Path, suffix: str) -> list[int]:
        """The generations that have such a file in the folder, ascending."""
        stems = (path.stem for path in folder.glob(f"*{suffix}"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _error(self, what: str) -> StateError:
        return StateError(f"{what}; {BEGIN_ANEW.format(folder=self._folder.parent)}")

    def _other_number(self, slots: int | str) -> StateError:
        was = slots if isinstance(slots, int) else "what it was"
        return StateError(
            f"MILLRACE_SLOTS is {self._slots}, but the states in {self._folder} were written for {slots} "
            f"slots, and this number cannot be changed: set MILLRACE_SLOTS to {was}, or "
            f"{BEGIN_ANEW.format(folder=self._folder.parent)}"
        )


def _generation(path: Path) -> Generation:
    """:raises StateError: if the list is damaged."""
    text, _, crc = path.read_bytes().rstrip(b"\n").partition(b"\n")
    if crc != b"%08x" % zlib.crc32(text):
        raise StateError(f"{path} is damaged; {BEGIN_ANEW.format(folder=path.parent.parent)}")
    return msgspec.json.decode(text, type=Generation)


def write_durably(path: Path, content: bytes) -> None:
    """When this returns, the file has this content and keeps it even if the power fails; until then it has
    its old content."""
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    # a task that Spark believes lost may still be writing
    fresh = path.with_suffix(f".{os.getpid()}")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync([path.parent, path.parent.parent] if made else [path.parent])


def sync(paths: Iterable[Path]) -> None:
    """Make sure that what was written to these files, or made, renamed and removed in these folders, is on
    the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
