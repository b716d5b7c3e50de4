"""The states of the slots on disk: one file for each slot and micro-batch that changed it, and for each such
batch a list of what every slot's state is behind it.

A batch builds on what the batches before it left. Spark runs a batch again, with the same messages, if its
commit is not in the checkpoint; then what the first run left is passed over and overwritten. So the last
state from before the running batch must stay, and nothing else: writing the state of a batch removes those
before that, when it is on the disk (decision 0037).

A state that the list names and that is not there, or not whole, is an error. It is never taken for a slot
that has none: the windows that were open in it would be lost without a word.
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

SUFFIX, LIST = ".state", ".slots"
_MAGIC, _VERSION = b"MLRS", 1
_HEAD = struct.Struct("<4sBHHqqI")
"""Magic, version of this head, number of slots, slot, generation, length and CRC-32 of the state."""
BEGIN_ANEW = (
    "restore the folder {folder} from a copy that was made while trigger-svc stood still, or move it away "
    "and let trigger-svc begin anew: it reads the topics from their first kept offsets, closed windows come "
    "again under their ids, and RECALCULATE STREAM treats what is older than the topics"
)


class StateError(MillraceError):
    """The states on disk are damaged, or not those of this deployment. Somebody has to put them right."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INTERNAL, message)


class Generations(msgspec.Struct, frozen=True):
    """What every slot's state is behind a batch: by slot, the batch that wrote it last (None: none has)."""

    slots: int
    batches: list[int | None]
    version: int = _VERSION


class SlotStates:
    """``folder``: shared by the driver and all workers; ``slots``: how many there are."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder, self._slots = folder, slots

    # ------------------------------------------------------------------ reading

    def read(self, slot: int, batch: int) -> bytes | None:
        """The state that this batch finds; None if no batch before it left one.

        :raises StateError: if it is missing, damaged or of another number of slots.
        """
        generation = self.before(batch).batches[slot]
        if generation is None:
            return None
        state = self._state(slot, generation)
        try:
            return Slot.current(state)
        except ValueError as error:
            raise self._error(f"{self._path(slot, generation)}: {error}") from error

    def before(self, batch: int) -> Generations:
        """What the slots' states are as this batch finds them.

        :raises StateError: if that is not known, or they are of another number of slots.
        """
        known = self._numbers(self._folder, LIST)
        if known and known[-1] > batch:
            raise self._error(
                f"the slots' states are of micro-batch {known[-1]}, the query's checkpoint is at {batch}: "
                "they are of different times"
            )
        earlier = [number for number in known if number < batch]
        if earlier:
            found = _generations(self._folder / f"{earlier[-1]}{LIST}")
            if found.slots != self._slots:
                raise self._other_number(found.slots)
            return found
        unlisted = self._unlisted(batch)
        if batch > 0 and unlisted.batches == [None] * self._slots:
            raise self._error(
                f"the query's checkpoint is at micro-batch {batch}, but there are no slots' states"
            )
        return unlisted

    def check(self, batch: int) -> None:
        """Read all that this batch will find, and remove what a run of it or of a later one left unfinished.

        :raises StateError: as :meth:`read`.
        """
        for slot in range(self._slots):
            self.read(slot, batch)
        for folder in (self._folder, *(self._folder / str(slot) for slot in range(self._slots))):
            for path in folder.glob("*.*"):
                if path.suffix not in (SUFFIX, LIST) or int(path.stem) >= batch:
                    path.unlink(missing_ok=True)

    def _state(self, slot: int, generation: int) -> bytes:
        path = self._path(slot, generation)
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            raise self._error(f"{path}, the state of slot {slot}, is missing") from None
        if not found.startswith(_MAGIC):
            return self._headless(path, slot, found)
        if len(found) < _HEAD.size:
            raise self._error(f"{path} is damaged: {len(found)} bytes")
        _, version, slots, number, batch, length, crc = _HEAD.unpack_from(found)
        if version != _VERSION:
            raise self._error(f"{path} has version {version}, this Millrace reads version {_VERSION}")
        state = found[_HEAD.size :]
        if len(state) != length or zlib.crc32(state) != crc or (number, batch) != (slot, generation):
            raise self._error(
                f"{path} is damaged: {len(state)} of {length} bytes, or not those that were written"
            )
        if slots != self._slots:
            raise self._other_number(slots)
        return state

    def _headless(self, path: Path, slot: int, found: bytes) -> bytes:
        """A state that was written before files had a head; it has no checksum, but must be readable."""
        try:
            number, slots = Slot.place(Slot.current(found))
        except ValueError as error:
            raise self._error(f"{path} is damaged: {error}") from error
        if slots != self._slots:
            raise self._other_number(slots)
        if number != slot:
            raise self._error(f"{path} is the state of slot {number}, not {slot}")
        return found

    def _unlisted(self, batch: int) -> Generations:
        """The same of states from before there were lists."""
        found: list[int | None] = [None] * self._slots
        for folder in self._folder.glob("*"):
            earlier = [number for number in self._numbers(folder, SUFFIX) if number < batch]
            if not earlier or not folder.name.isdecimal():
                continue
            slot = int(folder.name)
            if slot >= self._slots:
                raise self._other_number(f"more than {slot}")
            found[slot] = earlier[-1]
        return Generations(self._slots, found)

    # ------------------------------------------------------------------ writing

    def write(self, slot: int, batch: int, state: bytes) -> None:
        """What this batch leaves; on the disk when this returns. The file is there whole or not at all."""
        folder = self._folder / str(slot)
        known = self._numbers(folder, SUFFIX)
        head = _HEAD.pack(_MAGIC, _VERSION, self._slots, slot, batch, len(state), zlib.crc32(state))
        write_durably(self._path(slot, batch), head + state)
        last = max((one for one in known if one < batch), default=batch)
        for old in known:
            if old < last:
                self._path(slot, old).unlink(missing_ok=True)

    def seal(self, batch: int) -> None:
        """All slots that this batch has changed have written their states: list what each one's is now.

        :raises StateError: as :meth:`before`.
        """
        known = self._numbers(self._folder, LIST)
        changed = [slot for slot in range(self._slots) if self._path(slot, batch).exists()]
        if not changed and known:
            return
        before = self.before(batch).batches
        batches = [batch if slot in changed else number for slot, number in enumerate(before)]
        text = msgspec.json.encode(Generations(self._slots, batches))
        write_durably(self._folder / f"{batch}{LIST}", b"%s\n%08x\n" % (text, zlib.crc32(text)))
        last = max((one for one in known if one < batch), default=batch)
        for old in known:
            if old < last:
                (self._folder / f"{old}{LIST}").unlink(missing_ok=True)

    # ------------------------------------------------------------------ files

    def _path(self, slot: int, batch: int) -> Path:
        return self._folder / str(slot) / f"{batch}{SUFFIX}"

    @staticmethod
    def _numbers(folder: Path, suffix: str) -> list[int]:
        """The batches that have such a file there, ascending."""
        stems = (path.stem for path in folder.glob(f"*{suffix}"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _error(self, what: str) -> StateError:
        return StateError(f"{what}; {BEGIN_ANEW.format(folder=self._folder.parent)}")

    def _other_number(self, slots: int | str) -> StateError:
        return StateError(
            f"MILLRACE_SLOTS is {self._slots}, but the states in {self._folder} are of {slots} slots, and "
            "their number is a part of them: set it to what it was, or "
            f"{BEGIN_ANEW.format(folder=self._folder.parent)}"
        )


def _generations(path: Path) -> Generations:
    """:raises StateError: if the list is damaged."""
    text, _, crc = path.read_bytes().rstrip(b"\n").partition(b"\n")
    if crc != b"%08x" % zlib.crc32(text):
        raise StateError(f"{path} is damaged; {BEGIN_ANEW.format(folder=path.parent.parent)}")
    return msgspec.json.decode(text, type=Generations)


def write_durably(path: Path, content: bytes) -> None:
    """The file has this content, and keeps it if the power fails, when this returns; until then it has what
    it had before."""
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    # a task that Spark takes for lost may still write
    fresh = path.with_suffix(f".{os.getpid()}")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync([path.parent, path.parent.parent] if made else [path.parent])


def sync(paths: Iterable[Path]) -> None:
    """What was written to these files, or made, renamed and removed in these folders, is on the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
