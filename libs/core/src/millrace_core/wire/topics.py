"""The topics: one table says what each carries, its key, how it is kept, and who makes dead letters of what
cannot be understood there. It also defines how WAL topics are named."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Literal

from millrace_core.errors import ErrorCode, WireError

WAL_PREFIX = "wal."
_PLAIN = re.compile(r"[a-z0-9_]")
_NAME = r"(?:[a-z0-9_]|-[0-9a-f]{2})+"
WAL_PATTERN = rf"wal\.{_NAME}\.{_NAME}"
"""A regular expression (Java's and Python's) of what may be a table's topic."""

Service = Literal["api-gateway", "trigger-svc", "calc-svc", "notify-svc"]


TRIGGER_QUERY = "trigger-svc"
"""The trigger query as a reader of topics; it keeps its own positions (``status.ReadUpTo``)."""
_HOUR, _DAY = 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with a fixed name. ``compacted``: the last value of a key is kept for ever, and a null value
    deletes the key; otherwise ``retention_ms`` applies (-1: for ever), and there is no message without a
    value.

    ``buried_by``: the one service that makes dead letters of messages here that cannot be understood; other
    readers pass them over and count them. None: nobody reads the topic, or one service does so only at its
    start. ``keyed``: each message has a key, which is text; otherwise none has.

    ``readers``: consumer groups, and TRIGGER_QUERY. What all of them have read is trimmed once it is
    ``kept_ms`` old (-1: never); what one of them has not read is kept, however old it is.
    """

    name: str
    key: str
    value: str
    partitions: int = 1
    compacted: bool = False
    retention_ms: int = -1
    readers: tuple[str, ...] = ()
    kept_ms: int = _HOUR
    buried_by: Service | None = None
    keyed: bool = True


CATALOG = Topic(
    "catalog", "kind/db/name", "catalog.Record: the definition, or null once dropped", compacted=True,
    buried_by="calc-svc",
)  # fmt: skip
CONTROL = Topic(
    "control", "stream or table name#unique",
    "wire.control.ControlRecord, in force for all slots from there on",
    compacted=True, buried_by="trigger-svc",
)  # fmt: skip
CLOCK = Topic(
    "clock", "none", "wire.control.Tick: processing time as data", retention_ms=_HOUR,
    buried_by="trigger-svc", keyed=False,
)  # fmt: skip
"""Old ticks are of no use."""
REGROUP = Topic(
    "regroup", "stream uid/group", "wire.regroup: rows on their way to their group's slot", 4,
    readers=(TRIGGER_QUERY,), buried_by="trigger-svc",
)  # fmt: skip
TRIGGERS = Topic(
    "triggers", "stream uid/slot", "wire.events.TriggerBatch", 4, readers=("calc-svc", "calc-again"),
    kept_ms=_DAY, buried_by="calc-svc",
)  # fmt: skip
RECALC = Topic(
    "recalc", "stream uid/slot", "wire.recalc.Request", 4, readers=("calc-recalc", "calc-history"),
    buried_by="calc-svc",
)  # fmt: skip
HANDOVER = Topic(
    "handover", "stream uid/slot", "wire.recalc.Handover, for one slot", readers=(TRIGGER_QUERY,),
    buried_by="trigger-svc",
)  # fmt: skip
NOTIFICATIONS = Topic(
    "notifications", "stream uid/group", "wire.notices.NoticeBatch", 4, readers=("notify-svc",),
    kept_ms=7 * _DAY, buried_by="notify-svc",
)  # fmt: skip
STATUS = Topic(
    "status", "what it is about", "wire.status: acknowledgements and counters; wire.diagnosis",
    compacted=True, buried_by="calc-svc",
)  # fmt: skip
REGISTRATIONS = Topic(
    "registrations", "db.child", "wire.registrations: children that producers made, and what else calc-svc "
    "asks of the gateway", readers=("api-gateway",), kept_ms=_DAY, buried_by="api-gateway",
)  # fmt: skip
INSERT_TRIGGERS = Topic(
    "insert-triggers", "trigger#uid",
    "dialect.iotdb.triggers.progress.Progress: where a trigger stands in the WAL, what it keeps",
    compacted=True,
)  # fmt: skip
DEAD_LETTERS = Topic("dead-letters", "source topic", "wire.dead.DeadLetter", retention_ms=30 * _DAY)
WAL_BURIED_BY: Service = "calc-svc"
"""As ``buried_by``, for all WAL topics, and for topics with the same prefix that belong to no table."""

TOPICS: tuple[Topic, ...] = (
    CATALOG, CONTROL, CLOCK, REGROUP, TRIGGERS, RECALC, HANDOVER, NOTIFICATIONS, STATUS, REGISTRATIONS,
    INSERT_TRIGGERS, DEAD_LETTERS,
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
    """The inverse of :func:`wal_topic`: (db, table).

    :raises WireError: UNKNOWN_TABLE for a name that no table's topic can have.
    """
    parts = topic.removeprefix(WAL_PREFIX).split(".")
    try:
        db, table = map(_unescape, parts)
        if db and table and wal_topic(db, table) == topic:
            return db, table
    except ValueError:
        pass  # not exactly two parts, or bytes that are not UTF-8
    raise WireError(
        ErrorCode.UNKNOWN_TABLE, f"the topic name {topic} is not that of a table; the form is {_FORM}"
    )


_FORM = "wal.<database>.<table>, each byte other than a-z, 0-9, _ written as - and two hexadecimal digits"


def buried_by(topic: str) -> Service | None:
    """Which service makes dead letters of what cannot be understood in a topic; None: no service reads it."""
    if topic.startswith(WAL_PREFIX):
        return WAL_BURIED_BY
    return next((one.buried_by for one in TOPICS if one.name == topic), None)


def slot_of(topic: str, key: bytes, slots: int) -> int:
    """The slot of a key's messages: crc32 over topic and key, as the plan computes it in the JVM."""
    return zlib.crc32(topic.encode() + b"/" + key) % slots


_DIGITS = 20
"""The most digits of a uid; a key with more is not ours, and may have millions."""


def stream_in(key: bytes | None) -> int:
    """The stream that a key of ``triggers`` or ``regroup`` begins with (``uid/…``); -1 for another key."""
    uid = (key or b"").partition(b"/")[0]
    return int(uid) if uid.isdigit() and len(uid) <= _DIGITS else -1


_EVERYWHERE = frozenset({CONTROL.name, CLOCK.name, HANDOVER.name})


def slot_for(topic: str, key: bytes | None, slots: int) -> int | None:
    """The slot that a message of the trigger query goes to; None: all of them.

    A normal table's messages may have no key: then the table's name is used.
    """
    if topic in _EVERYWHERE:
        return None
    return slot_of(topic, _own_name(topic) if key is None else key, slots)


def _own_name(topic: str) -> bytes:
    """The name of a WAL topic's table; empty for a topic without a table, whose messages nobody evaluates."""
    try:
        return table_of(topic)[1].encode() if topic.startswith(WAL_PREFIX) else b""
    except WireError:
        return b""
