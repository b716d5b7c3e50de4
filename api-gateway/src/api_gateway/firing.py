"""What a write has to do with insert triggers; only the context knows who listens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from api_gateway.session import Session
from millrace_core.dialect.iotdb import statements as s
from millrace_core.model.schema import Table
from millrace_wal import Message


class Spot(NamedTuple):
    """The place in the log of rows of one device."""

    topic: str
    partition: int
    offset: int
    device: str


@dataclass
class Firing:
    """One write. ``depth``: how many writes by triggers led to it, one after the other. ``waits``: whether
    the write waits until AFTER triggers have fired for it; if not,
    ``spots`` says where its rows went. ``notes``: failures that do not make the write fail."""

    depth: int = 0
    waits: bool = True
    notes: list[str] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)


class Listener(Protocol):
    """IoTDB's triggers, as the rest of the gateway sees them."""

    def hears(self, messages: Sequence[Message]) -> bool:
        """Whether a trigger watches any of what these messages write."""

    def before(self, written: Sequence[tuple[Table, Message]], firing: Firing) -> list[Message]:
        """Fire BEFORE triggers; returns what is to be appended together with the messages.

        :raises IotdbError: TRIGGER_FIRE_ERROR if one refuses them.
        """

    def appending(self, firing: Firing) -> AbstractContextManager[object]:
        """To be held while messages are appended and passed to :meth:`lie`."""

    def lie(self, spots: Sequence[Spot], firing: Firing) -> None:
        """Note that messages are in the log, at these places."""

    def after(self, spots: Sequence[Spot], firing: Firing) -> None:
        """Wait until AFTER triggers have fired for these, if the write waits.

        :raises IotdbError: TRIGGER_FIRE_ERROR if a PESSIMISTIC trigger has failed, or has not fired in time.
        """

    def bounds(self, topic: str, table: Table) -> list[Mapping[int, int]]:
        """For each AFTER trigger that reads the topic, how far it is durably done with it."""

    def create(self, session: Session, statement: s.CreateTrigger) -> None: ...

    def drop(self, session: Session, statement: s.DropTrigger) -> None: ...

    def shown(self) -> list[tuple[object, ...]]:
        """The rows of SHOW TRIGGERS."""


class Nobody:
    """No trigger listens."""

    def hears(self, messages: Sequence[Message]) -> bool:
        return False

    def before(self, written: Sequence[tuple[Table, Message]], firing: Firing) -> list[Message]:
        return []

    def appending(self, firing: Firing) -> AbstractContextManager[object]:
        return nullcontext()

    def lie(self, spots: Sequence[Spot], firing: Firing) -> None: ...

    def after(self, spots: Sequence[Spot], firing: Firing) -> None: ...

    def bounds(self, topic: str, table: Table) -> list[Mapping[int, int]]:
        return []

    def create(self, session: Session, statement: s.CreateTrigger) -> None:
        raise NotImplementedError

    def drop(self, session: Session, statement: s.DropTrigger) -> None:
        raise NotImplementedError

    def shown(self) -> list[tuple[object, ...]]:
        return []
