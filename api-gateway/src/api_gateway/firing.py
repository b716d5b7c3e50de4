"""What a write has to do with triggers that listen to inserts; only the context knows who listens."""

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
    """Where rows of one device lie in the log."""

    topic: str
    partition: int
    offset: int
    device: str


@dataclass
class Firing:
    """One write. ``depth``: how many triggers' writes led to it, one after the other. ``waits``: until
    AFTER triggers have fired for it; otherwise ``spots`` says where it went. ``notes``: failures that do not
    fail the write."""

    depth: int = 0
    waits: bool = True
    notes: list[str] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)


class Listener(Protocol):
    """The triggers of IoTDB, as the rest of the gateway sees them."""

    def hears(self, messages: Sequence[Message]) -> bool:
        """Whether a trigger watches any of what these messages write."""

    def before(self, written: Sequence[tuple[Table, Message]], firing: Firing) -> list[Message]:
        """Fire BEFORE triggers; returns what is to be appended together with the messages.

        :raises IotdbError: TRIGGER_FIRE_ERROR if one refuses them.
        """

    def appending(self, firing: Firing) -> AbstractContextManager[object]:
        """Held while messages are appended and :meth:`lie` is told of them."""

    def lie(self, spots: Sequence[Spot], firing: Firing) -> None:
        """Messages are in the log."""

    def after(self, spots: Sequence[Spot], firing: Firing) -> None:
        """Wait until AFTER triggers have fired for them, if the write does.

        :raises IotdbError: TRIGGER_FIRE_ERROR if one of them that is PESSIMISTIC has failed, or has not fired
            in time.
        """

    def bounds(self, topic: str, table: Table) -> list[Mapping[int, int]]:
        """How far each AFTER trigger that reads the topic is done with it for certain."""

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
