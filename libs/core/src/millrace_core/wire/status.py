"""What services leave for one another, by key (compacted): acknowledgements, counters, failures."""

from __future__ import annotations

import re

import msgspec

from millrace_core.wire import diagnosis
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.reading import Format, strictly, text_of, undecodable
from millrace_core.wire.topics import STATUS


class Applied(msgspec.Struct, frozen=True, tag="applied", tag_field="about"):
    """trigger-svc has put all control records up to and with this offset in force. Key: ``applied``."""

    control: int


class StreamFailure(msgspec.Struct, frozen=True, tag="failure", tag_field="about"):
    """A stream failed. ``message`` says why; it is empty once the stream is well again.

    ``slot`` None: a calculation failed for good; the stream goes on, and is well again when one succeeds.
    Key: ``failure/<stream uid>``. Otherwise trigger-svc has set the stream aside in this slot, where it
    evaluates nothing until it is started again. Key: ``failure/<stream uid>/<slot>``.
    """

    stream: int
    message: str
    slot: int | None = None


class StreamPaused(msgspec.Struct, frozen=True, tag="paused", tag_field="about"):
    """A stream with ON_FAILURE_PAUSE waits because one of its addresses cannot be reached; ``message`` says
    which and why.

    ``partition``, ``offset``: the oldest record of ``notifications`` that has not been delivered; the owner
    of the partition deletes this status (with a null value) once it has been. Key:
    ``paused/<stream uid>/<partition>``.
    """

    stream: int
    partition: int
    offset: int
    message: str


class TriggersHeld(msgspec.Struct, frozen=True, tag="held", tag_field="about"):
    """calc-svc has calculated nothing of a stream from this offset of a partition of ``triggers`` on,
    although its consumer group has committed more. The rest is read again once the stream goes on; then this
    status is deleted (with a null value).

    ``waits``: what is missing, in words (for example rows that are not stored yet); empty: the stream is
    paused. Key: ``held/<stream uid>/<partition>``.
    """

    stream: int
    partition: int
    offset: int
    waits: str = ""


class Counters(msgspec.Struct, frozen=True, tag="counters", tag_field="about"):
    """What one task of a stream has counted since the stream was created: counter -> total, as
    ``wire.counters`` defines them.

    ``slot``: the slot of trigger-svc, or the partition of the topic that the service reads. ``instance``: the
    process that counts (empty: any of the service's). ``upto``: the first offset of the partition whose
    record has not been counted, so that what is read again after a crash is not counted twice. Key:
    ``counters/<service>/<stream>/<slot>``.
    """

    service: str
    stream: int
    slot: int
    totals: dict[str, int]
    instance: str = ""
    upto: int = 0


class ReadUpTo(msgspec.Struct, frozen=True, tag="read", tag_field="about"):
    """How far trigger-svc has read and evaluated a topic: partition -> the first offset that it has not.
    Key: ``read/<topic>``."""

    topic: str
    offsets: dict[int, int]
    instance: str = ""


class Recalculation(msgspec.Struct, frozen=True, tag="recalculation", tag_field="about"):
    """How far a recalculation by hand, or a history, has come.

    Key: ``recalculation/<stream>/<partition>/<offset>``, where its (last) request stands. ``first``,
    ``last``: event times in ticks. ``state``: Running, Finished, Ignored (by hand: the stream has not come
    that far) or Failed; ``message`` says why. ``fraction``: 0 to 1. ``rows``: stored rows read; ``events``:
    events sent. ``seconds_left``: how long until it is done, at the pace so far; None while that is not
    known.
    """

    stream: int
    partition: int
    offset: int
    why: str
    first: int
    last: int
    state: str
    fraction: float
    rows: int
    events: int
    message: str = ""
    seconds_left: float | None = None


class Stored(msgspec.Struct, frozen=True, tag="stored", tag_field="about"):
    """A table store has the rows of a table in files: partition of the WAL topic -> the first offset that is
    not in files. The topic may forget what lies before. ``store``: one of several stores; ``table``: the
    table's uid. Key: ``stored/<store>/<topic>``."""

    store: str
    topic: str
    table: int
    offsets: dict[int, int]


class Problem(msgspec.Struct, frozen=True, tag="problem", tag_field="about"):
    """What keeps a service from a part of its work, or what it has lost; deleted (with a null value) once it
    is over.

    ``what``: the thing, as the key needs it: ``state``, ``table/<topic>``, ``gap/<topic>/<partition>``. It
    touches the streams that read one of these ``topics`` (WAL topics) or are one of ``streams``; all of them
    if ``everything``. ``control`` not None: something is lost for good; a stream that was started by a later
    control record is not touched. ``stalled_since`` not empty: nothing has failed, but a part of the service
    (``what`` is ``stalled/<part>``) has not moved since that instant although something waits; it is reported
    with the status. Key: ``problem/<service>/<what>``.
    """

    service: str
    what: str
    message: str
    topics: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    everything: bool = False
    control: int | None = None
    stalled_since: str = ""


class Buried(msgspec.Struct, frozen=True, tag="buried", tag_field="about"):
    """Up to where dead letters have been made of a topic that calc-svc reads again, in part, at each start:
    partition -> the first offset that was not looked at. Key: ``buried/<topic>``."""

    topic: str
    offsets: dict[int, int]


class QueryRuns(msgspec.Struct, frozen=True, tag="runs", tag_field="about"):
    """How far a continuous query has come; written after the rows of each run. ``query``: its uid.

    ``done``: the last instant (milliseconds) whose rows are written, None before the first. ``at``: when its
    last run ended, in nanoseconds. ``succeeded``, ``failed``, ``rows``: totals of all its runs. ``message``:
    why the last run failed; it is tried again. ``next``: the instant that comes next; ``skipped``: how many
    instants DISCARD has left out; ``took``: milliseconds of the last run. Key: ``runs/<uid>``.
    """

    query: int
    done: int | None = None
    at: int = 0
    succeeded: int = 0
    failed: int = 0
    rows: int = 0
    message: str = ""
    next: int | None = None
    skipped: int = 0
    took: int = 0


AnyStatus = (
    Applied | StreamFailure | StreamPaused | TriggersHeld | Counters | ReadUpTo | Recalculation | Stored
    | Problem | Buried | QueryRuns
)  # fmt: skip

PAUSED, HELD, COUNTERS, READ = "paused/", "held/", "counters/", "read/"
STORED, PROBLEM, BURIED, RUNS = "stored/", "problem/", "buried/", "runs/"
"""How the keys of these records begin."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyStatus] = msgspec.json.Decoder(AnyStatus)
decode = strictly(_decoder.decode)
_KEY = re.compile(
    r"applied|runs/-?\d+|failure/-?\d+(/-?\d+)?|(paused|held)/-?\d+/-?\d+|recalculation/-?\d+/-?\d+/-?\d+"
    r"|counters/[^/]+/-?\d+/-?\d+|(read|stored|problem|buried)/.+|diagnosis/-?\d+/-?\d+",
    re.ASCII | re.DOTALL,
)
"""What :func:`key` gives, and the key of a slot's diagnosis."""


def key(status: AnyStatus) -> bytes:
    match status:
        case Applied():
            return b"applied"
        case StreamFailure(stream=uid, slot=slot):
            return (f"failure/{uid}" if slot is None else f"failure/{uid}/{slot}").encode()
        case StreamPaused(stream=uid, partition=partition):
            return f"{PAUSED}{uid}/{partition}".encode()
        case TriggersHeld(stream=uid, partition=partition):
            return f"{HELD}{uid}/{partition}".encode()
        case Recalculation(stream=uid, partition=partition, offset=offset):
            return f"recalculation/{uid}/{partition}/{offset}".encode()
        case Counters(service=service, stream=uid, slot=slot):
            return f"{COUNTERS}{service}/{uid}/{slot}".encode()
        case ReadUpTo(topic=topic):
            return f"{READ}{topic}".encode()
        case Stored(store=store, topic=topic):
            return f"{STORED}{store}/{topic}".encode()
        case Problem(service=service, what=what):
            return f"{PROBLEM}{service}/{what}".encode()
        case Buried(topic=topic):
            return f"{BURIED}{topic}".encode()
        case QueryRuns(query=uid):
            return f"{RUNS}{uid}".encode()


def part_of(key: bytes) -> tuple[int, int]:
    """(stream uid, partition) of the key of a StreamPaused or TriggersHeld."""
    _, stream, partition = key.decode().split("/")
    return int(stream), int(partition)


def encode(status: AnyStatus) -> bytes:
    return _encoder.encode(status)


_RECORDS = Format(STATUS, decode, key)
_ANSWERS = Format(STATUS, diagnosis.decode, lambda part: diagnosis.key(part.stream, part.slot))


def read(given: bytes | None, value: bytes | None) -> AnyStatus | Diagnosis | None:
    """What a message of the topic says; None: it deletes its key.

    :raises WireError: UNDECODABLE for a message that does not fit the topic.
    """
    if _RECORDS.deletes(value):
        if _KEY.fullmatch(text_of(given)) is None:
            raise undecodable("the message deletes a key that no record of the topic can have")
        return None
    answer = (given or b"").startswith(diagnosis.PREFIX.encode())
    return _ANSWERS.read(given, value) if answer else _RECORDS.read(given, value)
