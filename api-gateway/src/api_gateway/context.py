"""What statements work with, and the few steps that several of them have in common."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from api_gateway.calc_client import CalcClient, Offsets
from api_gateway.catalog.gate import Gate
from api_gateway.catalog.topics import WalTopics
from api_gateway.catalog.writer import CatalogWriter
from api_gateway.firing import Listener, Nobody
from api_gateway.receivers import Resolve, resolve
from api_gateway.settings import GatewaySettings
from api_gateway.watching.continuous import Continuous
from api_gateway.watching.status_board import StatusBoard
from millrace_core.catalog import Catalog
from millrace_core.model.schema import stable_hash
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL
from millrace_wal import Log, Message


class OwnWrites:
    """How far this gateway wrote to WAL topics: topic -> partition -> the offset after its last message."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: Offsets = {}

    def note(self, messages: Sequence[Message], places: Sequence[tuple[int, int]]) -> None:
        with self._lock:
            for message, (partition, offset) in zip(messages, places, strict=True):
                ends = self._ends.setdefault(message.topic, {})
                ends[partition] = max(ends.get(partition, 0), offset + 1)

    def start(self, topic: str, ends: dict[int, int]) -> None:
        """Note what was there before this gateway ran: a query must see that as well."""
        with self._lock:
            self._ends[topic] = {partition: end for partition, end in ends.items() if end}

    def forget(self, topics: Sequence[str]) -> None:
        with self._lock:
            for topic in topics:
                self._ends.pop(topic, None)

    def ends(self) -> Offsets:
        with self._lock:
            return {topic: dict(ends) for topic, ends in self._ends.items()}


@dataclass
class Context:
    """There is one per gateway. ``gate``: inserts pass it together; whoever removes a table passes it alone.

    Locks are taken in this order: ``writer.ddl``, then ``gate``.
    """

    log: Log
    writer: CatalogWriter
    board: StatusBoard
    topics: WalTopics
    calc: CalcClient
    settings: GatewaySettings
    logger: FilteringBoundLogger
    gate: Gate = field(default_factory=Gate)
    written: OwnWrites = field(default_factory=OwnWrites)
    continuous: Continuous = field(default_factory=Continuous)
    listener: Listener = field(default_factory=Nobody)
    """IoTDB's triggers."""
    resolve: Resolve = resolve
    """Gives the IP addresses of a host in NOTIFY."""
    abandoned: set[int] = field(default_factory=set)
    """Streams to be dropped: their CREATE was answered with an error, but may have taken effect."""

    @property
    def catalog(self) -> Catalog:
        return self.writer.catalog

    def append_rows(self, messages: Sequence[Message]) -> list[tuple[int, int]]:
        """Append to WAL topics, durably; queries see it from now on. Returns partition and offset of each
        message."""
        places = self.log.append(messages)
        self.written.note(messages, places)
        return places

    def append_control(self, records: Sequence[tuple[str, control.AnyControl]]) -> int:
        """Append control records (name, record) in order; returns the number of the last one. Each record has
        a key of its own, so compaction removes only what :class:`api_gateway.upkeep.trimming.Trimmer`
        deletes."""
        messages = [
            Message(CONTROL.name, f"{name}#{secrets.token_hex(8)}".encode(), control.encode(record))
            for name, record in records
        ]
        return self.log.append(messages)[-1][1]


def fresh_uid(*names: str) -> int:
    """A uid that no table or stream has had before, whatever its name."""
    return stable_hash(*names, time.time_ns(), secrets.randbits(64))
