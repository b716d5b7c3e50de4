"""The one instance of a trigger's class: its process, restarted whenever it is gone, and what it keeps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from api_gateway.insert_triggers import files
from api_gateway.insert_triggers.process import Gone, TriggerProcess
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.triggers.tablets import Batch, BatchTablet
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.insert_trigger import InsertTrigger
from millrace_triggers import frames
from millrace_triggers.frames import Begin, Begun, Ended, Fire, Fired, Written

CHUNK = 2000
"""The most tablets per call."""
MOST_STATE = 4 * 1024 * 1024
"""How many bytes a class may keep: they must fit into one message."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``folder``: of the classes; ``seconds``: how long one call of a class may take; ``memory``: how many
    bytes its process may have; ``tries``: how often its start is tried before a firing fails."""

    folder: Path
    seconds: float
    memory: int
    tries: int


@dataclass(slots=True)
class Outcome:
    """What became of one tablet. ``why``: why it failed, empty if it did not; ``writes``: what it wrote if it
    did not."""

    why: str = ""
    writes: list[Written] = field(default_factory=list)


class Instance:
    """May be used by many threads, one after the other. ``state``: what the class keeps now (MessagePack)."""

    def __init__(self, record: InsertTrigger, limits: Limits, state: bytes | None = None) -> None:
        self.record, self._limits = record, limits
        self.state = state
        self.lock = threading.RLock()
        self._process: TriggerProcess | None = None
        self.starts = 0
        """How often a process was started."""

    # -- life ------------------------------------------------------------------------------------------------

    def create(self) -> str:
        """Start the first process, which calls ``validate`` and ``on_create``; returns the strategy.

        :raises IotdbError: if the class is not there, or refuses.
        """
        with self.lock:
            process = self._started(again=False)
            begun = process.begun
            if begun.failed:
                process.close()
                name = self.record.class_name
                if begun.failed == "load":
                    raise IotdbError(
                        Status.TRIGGER_LOAD_CLASS_ERROR, f"the class {name} cannot be loaded: {begun.why}"
                    )
                raise IotdbError(Status.CREATE_TRIGGER_ERROR, f"{begun.failed} of {name} failed: {begun.why}")
            self._process = process
            return begun.strategy

    def rewind(self, state: bytes | None) -> None:
        """Go on from what was kept earlier."""
        with self.lock:
            if self.record.stateful and state != self.state:
                self._end()
            self.state = state

    def drop(self) -> str:
        """Call ``on_drop`` once; returns what it raised, empty if nothing. The process is gone afterwards."""
        with self.lock:
            try:
                told = self._alive().ask(frames.End())
            except (Gone, MillraceError) as error:
                return str(error)
            finally:
                self._end()
            return told.why if isinstance(told, Ended) else ""

    def close(self) -> None:
        with self.lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _started(self, *, again: bool) -> TriggerProcess:
        record, limits = self.record, self._limits
        try:
            files.check_again(limits.folder, record.file, record.sha256)
        except IotdbError as error:
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"the trigger {record.name} cannot be started: {error.message}"
            ) from error
        self.starts += 1
        return TriggerProcess(
            Begin(
                str(limits.folder), record.file and str(limits.folder / record.file), record.class_name,
                record.attributes, record.stateful, again, self.state if again else None, limits.seconds,
                limits.memory,
            )
        )  # fmt: skip

    def _alive(self) -> TriggerProcess:
        """The process; :raises MillraceError: UNAVAILABLE if none can be started."""
        begun: Begun | None = None
        for _ in range(0 if self._process is not None else self._limits.tries):
            process = self._started(again=True)
            begun = process.begun
            if not begun.failed:
                self._process = process
                break
            process.close()
        if self._process is None:
            why = f"{begun.failed}: {begun.why}" if begun is not None else "no attempts are left"
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"the trigger {self.record.name} cannot be started: {why}"
            )
        return self._process

    # -- firing ----------------------------------------------------------------------------------------------

    def fire(self, batch: Batch, parts: Sequence[BatchTablet]) -> list[Outcome]:
        """Fire tablets of a batch, in order; returns the outcome of each. A tablet that takes too long, or
        ends two processes in a row, has failed; the others are fired by the next process, from what was kept
        before.

        :raises MillraceError: UNAVAILABLE if no process can be started; some tablets may have fired by then.
        """
        outcomes: list[Outcome] = []
        alone_until = ended_at = -1
        with self.lock:
            while len(outcomes) < len(parts):
                at = len(outcomes)
                some = parts[at : at + (1 if at < alone_until else CHUNK)]
                process = self._alive()
                try:
                    fired = process.ask(framed(batch, some, state=self.record.stateful))
                except Gone as gone:
                    self._end()
                    if len(some) == 1 and (gone.slow or ended_at == at):
                        outcomes.append(Outcome(str(gone)))
                    # one of the tablets has ended it, or something else has; all their effects are lost
                    alone_until, ended_at = max(alone_until, at + len(some)), at
                    continue
                assert isinstance(fired, Fired)
                outcomes += self._taken(fired)
        return outcomes

    def _taken(self, fired: Fired) -> list[Outcome]:
        found = [
            Outcome(fired.failures.get(index, ""), fired.writes.get(index, []))
            for index in range(fired.count)
        ]
        if fired.state is not None and len(fired.state) > MOST_STATE:
            found[-1] = Outcome(
                f"state() returned {len(fired.state)} bytes; at most {MOST_STATE} are allowed"
            )
        elif fired.state is not None:
            self.state = fired.state
        return found


def framed(batch: Batch, parts: Sequence[BatchTablet], *, state: bool) -> Fire:
    """Consecutive tablets, as they are sent to a process."""
    begin, end = parts[0].begin, parts[-1].end
    rows = slice(begin, end)
    return Fire(
        np.ascontiguousarray(batch.times[rows], "<i8").tobytes(),
        [frames.pack(type_, values[rows], present[rows]) for type_, values, present in batch.columns],
        [[frames.FrameSeries(*one) for one in series] for series in batch.series],
        [frames.FrameTablet(one.device, one.begin - begin, one.end - begin, one.series) for one in parts],
        state,
    )
