"""What calc-svc reads from the internal topics when it starts, and what it cannot understand there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from calc_svc.store.catalog import CatalogView
from millrace_core.catalog import record_key
from millrace_core.errors import WireError
from millrace_core.model.schema import SEPARATOR, Child
from millrace_core.wire import registrations
from millrace_core.wire.topics import CATALOG, REGISTRATIONS, STATUS, wal_topic
from millrace_wal import DeadLetters, Log, Record, replay


@dataclass(slots=True)
class Replayed:
    """``status_end``: the offset after what the topic ``status`` held; ``left_behind``: the WAL topics of
    tables that were dropped; ``looked_at``: topic -> the offset before which every bad message will have its
    dead letter, once those that wait are written."""

    status_end: int = 0
    left_behind: set[str] = field(default_factory=set)
    looked_at: dict[str, int] = field(default_factory=dict)


def replayed(log: Log, catalog: CatalogView, dead: DeadLetters) -> Replayed:
    """Take in what the topics ``status``, ``catalog`` and ``registrations`` hold. What is not understood and
    came while this service was away is given to ``dead``."""
    found = Replayed()

    def follow(topic: str, apply: Callable[[Record], object]) -> None:
        bad: list[tuple[Record, WireError]] = []
        for record in replay(log, topic):
            try:
                apply(record)
            except WireError as error:
                bad.append((record, error))
        # the topic ``status`` itself says how far each topic was looked at
        upto = catalog.buried().get(topic, {}).get(0, 0)
        for record, cause in bad:
            if record.offset >= upto:
                dead.bury(record, cause)
                found.looked_at[topic] = record.offset + 1

    gone: set[bytes] = set()

    def apply_status(record: Record) -> None:
        found.status_end = record.offset + 1
        catalog.apply_status(record.key, record.value)

    def apply_catalog(record: Record) -> None:
        catalog.apply(record.offset, record.key, record.value)
        (gone.add if record.value is None else gone.discard)(record.key or b"")

    follow(STATUS.name, apply_status)
    follow(CATALOG.name, apply_catalog)
    for record in replay(log, REGISTRATIONS.name):
        # a registration that the gateway had no time to turn into a catalog record
        with suppress(WireError):  # the gateway makes a dead letter of it
            child = registrations.REGISTERED.read(record.key, record.value)
            if isinstance(child, Child) and record_key("child", child.db, child.name) not in gone:
                catalog.learn(child)
    names = (key.decode().split(SEPARATOR, 2) for key in gone)
    found.left_behind = {wal_topic(*name) for kind, *name in names if kind == "table"}
    return found
