"""Messages that mean nothing, for every topic: what anybody may write who can write to the broker.

A cell is one message; ``letters`` says how many dead letters it makes: one, or none where it is a good
message of the topic, or nobody reads the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millrace_core.catalog import Snode, encode, key_of
from millrace_core.dialect.iotdb.triggers import progress
from millrace_core.wire import control, events, notices, recalc, registrations, regroup, status
from millrace_core.wire.events import Group
from millrace_core.wire.operations import Altered, encode_operation
from millrace_core.wire.topics import (
    CATALOG,
    CLOCK,
    CONTROL,
    DEAD_LETTERS,
    HANDOVER,
    INSERT_TRIGGERS,
    NOTIFICATIONS,
    RECALC,
    REGISTRATIONS,
    REGROUP,
    STATUS,
    TOPICS,
    TRIGGERS,
    Topic,
)

NOBODY = 4242
"""The uid of no stream."""
BAD_KEY = b"caf\xe9"
GARBAGE = b"\x80\xff no message \x00"
MEGABYTES = b"\x9c\xff" * (4 * 1024 * 1024 - 100)
MALFORMED = (
    "wal.a",
    "wal.",
    "wal.d",
    "wal.d.-ff",
    "wal.d.-zz",
    "wal.d.-61",
    "wal.d.m.x",
    "wal..m",
    "wal.D.m",
)
"""Topic names that begin as those of tables do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A message, and how many dead letters it makes."""

    topic: str
    poison: str
    key: bytes | None
    value: bytes | None
    letters: int = 1

    def __str__(self) -> str:
        return f"{self.topic} x {self.poison}"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a topic holds: a good message that concerns nobody, the value of an unknown kind (under ``kind``,
    if the key says what it is), that of a newer version."""

    key: bytes | None
    value: bytes
    unknown: bytes
    newer: bytes
    kind: bytes | None = None
    deletion: bytes | None = None
    """Of a compacted topic: a key that no message of it has."""


_BATCH = events.TriggerBatch(NOBODY, 0, 1, 0, {}, [])
_REQUEST = recalc.Request(NOBODY, 0, 1, 4, "MANUAL", {}, 0)
_HANDOVER = recalc.Handover(NOBODY, 0, 1)
_MOVED = regroup.Regrouped(NOBODY, 0, 1, 0, Group(0, (), None), "m1", {}, 0, b"")
_WANTED = registrations.OutputWanted(NOBODY)
_KEPT = progress.TriggerProgress("t", NOBODY, 1)
_FAILED = status.StreamFailure(NOBODY, "", 0)
SAMPLES: dict[str, Sample] = {
    CATALOG.name: Sample(
        key_of(Snode(NOBODY)), encode(Snode(NOBODY)), b"{}", b'{"id":"4242","version":2}',
        b"planet\x1fmars", b"table\x1fd",
    ),
    CONTROL.name: Sample(
        b"d.nobody", control.encode(control.StopStream(NOBODY)), b'{"op":"frobnicate","uid":4242}',
        b'{"op":"stop","uid":{"version":2}}', deletion=b"d.nobody#1",
    ),
    CLOCK.name: Sample(None, control.encode(control.Tick(1)), b'{"pulse":1}', b'{"now":[1,"UTC"]}'),
    REGROUP.name: Sample(
        regroup.key(NOBODY, 0), regroup.encode(_MOVED), b"\x91\x01", b"\x82\xa1a\x01\xa1b\x02"
    ),
    TRIGGERS.name: Sample(
        events.key_of(_BATCH), events.encode(_BATCH), b'{"about":"something"}',
        b'{"stream":4242,"epoch":0,"slot":1,"number":0,"seen":{},"events":[{"version":2}]}',
    ),
    RECALC.name: Sample(
        recalc.key(NOBODY, 1), recalc.encode(_REQUEST), b"\x81\xa3why\xa4WHIM",
        recalc.encode(_REQUEST).replace(b"MANUAL", b"WHIMSY"),
    ),
    HANDOVER.name: Sample(recalc.key(NOBODY, 1), recalc.encode(_HANDOVER), b"\x80", b"\x81\xa6stream\xa14"),
    NOTIFICATIONS.name: Sample(
        f"{NOBODY}/0".encode(), notices.encode(notices.NoticeBatch([], NOBODY)), b'{"news":[]}',
        b'{"notices":[{"version":2}],"uid":4242}',
    ),
    STATUS.name: Sample(
        status.key(_FAILED), status.encode(_FAILED), b'{"about":"weather","stream":4242}',
        b'{"about":"failure","stream":4242,"message":{"version":2}}', deletion=b"paused/x",
    ),
    REGISTRATIONS.name: Sample(
        registrations.key_of(_WANTED), registrations.encode(_WANTED)[2], b'{"planet":"mars"}',
        b'{"stream":4242,"version":2}',
    ),
    INSERT_TRIGGERS.name: Sample(
        progress.key_of(_KEPT), progress.encode(_KEPT), b"\x80",
        b"\x83\xa4name\xa1t\xa3uid\xa1x\xa6number\x01", deletion=b"nobody#4242",
    ),
    DEAD_LETTERS.name: Sample(b"wal.d.m", b"{}", b'{"kind":"of"}', b'{"version":2}'),
}  # fmt: skip


def cells(topic: Topic) -> Iterator[Cell]:
    """All of one topic."""
    sample = SAMPLES[topic.name]
    some = 0 if topic.buried_by is None else 1
    yield Cell(topic.name, "null key", None, sample.value, some if topic.keyed else 0)
    deleted = sample.deletion if topic.compacted else sample.key
    # any key of the topic control may be deleted
    yield Cell(topic.name, "null value", deleted, None, 0 if topic.name == CONTROL.name else some)
    yield Cell(topic.name, "garbage", sample.key, GARBAGE, some)
    yield Cell(topic.name, "key that is not UTF-8", BAD_KEY, sample.value, some)
    yield Cell(topic.name, "8 MB of garbage", sample.key, MEGABYTES, some)
    yield Cell(topic.name, "unknown kind", sample.kind or sample.key, sample.unknown, some)
    yield Cell(topic.name, "newer version", sample.key, sample.newer, some)


def wal_cells(topic: str, child: bytes, row: bytes, normal: bool) -> Iterator[Cell]:
    """All of a table's topic; ``row``: a good value. A normal table's messages need no key."""
    if not normal:
        yield Cell(topic, "null key", None, row)
    yield Cell(topic, "null value", child, None)
    yield Cell(topic, "garbage", child, GARBAGE)
    yield Cell(topic, "key that is not UTF-8", BAD_KEY, row)
    yield Cell(topic, "key of 8 MB", MEGABYTES, row)
    yield Cell(topic, "8 MB of garbage", child, MEGABYTES)
    yield Cell(topic, "unknown kind", child, b'\x00{"op":"rename","name":"x"}')
    yield Cell(topic, "newer version", child, encode_operation(Altered(99)))


def malformed_cells(row: bytes) -> Iterator[Cell]:
    """Good rows in topics that no table can have."""
    for topic in MALFORMED:
        yield Cell(topic, "malformed topic name", None, row)
        yield Cell(topic, "malformed topic name, with a key", b"m1", row)


INNER = tuple(topic for topic in TOPICS if topic.buried_by is not None)
"""The topics of which something is read."""
