"""The topics: one table says what each carries, its key, how it is kept; and how WAL topics are named."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

WAL_PREFIX = "wal."
_PLAIN = re.compile(r"[a-z0-9_]")


TRIGGER_QUERY = "trigger-svc"
"""As a reader of a topic: the trigger query, which keeps its own positions (``status.ReadUpTo``)."""
_HOUR, _DAY = 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of fixed name. ``compacted``: the last value of a key is kept for ever; else ``retention_ms``
    (-1: for ever).

    ``readers``: consumer groups, and TRIGGER_QUERY. What all of them have read is trimmed once it is
    ``kept_ms`` old; what one of them has not is kept however old it is.
    """

    name: str
    key: str
    value: str
    partitions: int = 1
    compacted: bool = False
    retention_ms: int = -1
    readers: tuple[str, ...] = ()
    kept_ms: int = _HOUR


CATALOG = Topic(
    "catalog", "kind/db/name", "wire.records: the definition, or null once dropped", compacted=True
)
CONTROL = Topic(
    "control", "stream or table name", "wire.control.ControlRecord, in force for all slots from there on"
)
CLOCK = Topic("clock", "none", "wire.control.Tick: processing time as data", readers=(TRIGGER_QUERY,))
REGROUP = Topic(
    "regroup", "stream uid/group", "wire.regroup: rows on their way to their group's slot", 4,
    readers=(TRIGGER_QUERY,),
)  # fmt: skip
TRIGGERS = Topic(
    "triggers", "stream uid/slot", "wire.events.TriggerBatch", 4, readers=("calc-svc", "calc-again"),
    kept_ms=_DAY,
)  # fmt: skip
RECALC = Topic("recalc", "stream uid/slot", "wire.recalc.Request", 4, readers=("calc-recalc", "calc-history"))
HANDOVER = Topic(
    "handover", "stream uid/slot", "wire.recalc.Handover, for one slot", readers=(TRIGGER_QUERY,)
)
NOTIFICATIONS = Topic(
    "notifications", "stream uid/group", "wire.notices.NoticeBatch", 4, readers=("notify-svc",),
    kept_ms=7 * _DAY,
)  # fmt: skip
STATUS = Topic("status", "what it is about", "wire.status: acknowledgements and counters", compacted=True)
REGISTRATIONS = Topic(
    "registrations", "db.child", "model.schema.Child that a producer made", readers=("api-gateway",),
    kept_ms=_DAY,
)  # fmt: skip
DEAD_LETTERS = Topic("dead-letters", "source topic", "wire.dead.DeadLetter", retention_ms=30 * _DAY)

TOPICS: tuple[Topic, ...] = (
    CATALOG, CONTROL, CLOCK, REGROUP, TRIGGERS, RECALC, HANDOVER, NOTIFICATIONS, STATUS, REGISTRATIONS,
    DEAD_LETTERS,
)  # fmt: skip


def _escape(name: str) -> str:
    """A name made of the characters that a topic may have: anything but ``[a-z0-9_]`` becomes ``-xx`` per
    byte."""
    return "".join(c if _PLAIN.match(c) else "".join(f"-{b:02x}" for b in c.encode()) for c in name)


def _unescape(name: str) -> str:
    return re.sub(rb"-([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), name.encode()).decode()


def wal_topic(db: str, table: str) -> str:
    """The WAL topic of a super or normal table: ``wal.<db>.<table>``."""
    return f"{WAL_PREFIX}{_escape(db)}.{_escape(table)}"


def table_of(topic: str) -> tuple[str, str]:
    """The inverse of :func:`wal_topic`: (db, table)."""
    db, table = topic.removeprefix(WAL_PREFIX).split(".", 1)
    return _unescape(db), _unescape(table)


def slot_of(topic: str, key: bytes, slots: int) -> int:
    """The slot of a key's messages: crc32 over topic and key, as the plan computes it in the JVM."""
    return zlib.crc32(topic.encode() + b"/" + key) % slots


_EVERYWHERE = frozenset({CONTROL.name, CLOCK.name, HANDOVER.name})


def slot_for(topic: str, key: bytes | None, slots: int) -> int | None:
    """The slot that a message of the trigger query goes to; None: all of them.

    A normal table's messages may have no key: its name is meant.
    """
    if topic in _EVERYWHERE:
        return None
    if key is None:
        key = table_of(topic)[1].encode() if topic.startswith(WAL_PREFIX) else b""
    return slot_of(topic, key, slots)
