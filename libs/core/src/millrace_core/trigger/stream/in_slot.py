"""What the streams of a slot have in common: what they keep, and the parts that any of them needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.stream.definition import Definition
from millrace_core.trigger.stream.routes import Routes
from millrace_core.trigger.stream.state import Life, StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.wire.control import Offsets


class StreamInSlot(ABC):
    """``state``: what the stream keeps. ``routes`` brings rows to the slot of their group; ``telling`` makes
    messages of what results."""

    def __init__(self, life: Life, slot: int) -> None:
        self.state = StreamState(life, slot)
        self.uid, self.slot = self.state.uid, slot
        self.routes = Routes(self.state)
        self.telling = Telling(self.state)

    # ------------------------------------------------------------------ what it is

    @property
    def life(self) -> Life:
        return self.state.life

    @property
    def definition(self) -> Definition:
        return self.state.definition

    @property
    def groups(self) -> Groups:
        return self.state.groups

    @property
    def clock(self) -> Columns:
        return self.state.clock

    @property
    def memory(self) -> Columns:
        return self.state.memory

    @property
    def live(self) -> bool:
        """As :attr:`StreamState.live`."""
        return self.state.live

    @property
    def waits(self) -> bool:
        """As :attr:`StreamState.waits`."""
        return self.state.waits

    def redefine(self, definition: bytes) -> None:
        """Go on with the same groups under another definition of the table."""
        self.state.redefine(definition)

    def lose_table(self) -> None:
        """The trigger table is gone, and its groups with it."""
        self.state.lose_table()

    # ------------------------------------------------------------------ tables

    @property
    def passing(self) -> Groups:
        """Tables of this batch whose rows are sent on."""
        return self.state.passing

    @passing.setter
    def passing(self, tables: Groups) -> None:
        self.state.passing = tables

    @property
    def places(self) -> Groups:
        """Where the rows of a table go."""
        return self.state.places

    def place(self, name: bytes, family: Family) -> int:
        """As :meth:`StreamState.place`."""
        return self.state.place(name, family)

    # ------------------------------------------------------------------ the end of a batch, and state

    def farewells(self, seen: Offsets) -> Iterator[Output]:
        """As :meth:`Telling.farewells`."""
        return self.telling.farewells(seen)

    def sweep(self) -> None:
        """Forget the groups that ended."""
        self.state.sweep()

    def count(self, counter: str, more: int) -> None:
        """Add to one of the counters that ``wire.counters`` lists."""
        self.state.count(counter, more)

    def news(self, ticked: bool) -> dict[str, int] | None:
        """As :meth:`StreamState.news`."""
        return self.state.news(ticked)

    def dump(self) -> list[Any]:
        """Plain data for msgpack."""
        return self.state.dump(self._dump_more())

    @classmethod
    def load(cls, data: list[Any], slot: int) -> Self:
        """The inverse of :meth:`dump`."""
        stream = cls(StreamState.life_of(data), slot)
        stream.state.load(data, stream._load_more)
        return stream

    @abstractmethod
    def _dump_more(self) -> Any:
        """What only this kind of stream keeps."""

    @abstractmethod
    def _load_more(self, data: Any) -> None:
        """The inverse of it."""
