"""Acknowledgements and counters that trigger-svc and calc-svc leave for the gateway (compacted)."""

from __future__ import annotations

import msgspec


class Applied(msgspec.Struct, frozen=True, tag="applied", tag_field="about"):
    """trigger-svc has put all control records up to and with this offset in force. Key: ``applied``."""

    control: int


class StreamFailure(msgspec.Struct, frozen=True, tag="failure", tag_field="about"):
    """A stream failed, ``message`` says why: empty once it is well again.

    ``slot`` None: a calculation failed for good; the stream goes on, and is well when one succeeds. Key:
    ``failure/<stream uid>``. Else trigger-svc has set the stream aside in this slot, where it judges nothing
    until it is started again. Key: ``failure/<stream uid>/<slot>``.
    """

    stream: int
    message: str
    slot: int | None = None


class StreamPaused(msgspec.Struct, frozen=True, tag="paused", tag_field="about"):
    """A stream with ON_FAILURE_PAUSE waits: an address of it cannot be reached, ``message`` says which and
    why.

    ``partition``, ``offset``: the oldest record of ``notifications`` that has not been delivered; the owner
    of the partition deletes this (a null value) once it has. Key: ``paused/<stream uid>/<partition>``.
    """

    stream: int
    partition: int
    offset: int
    message: str


class TriggersHeld(msgspec.Struct, frozen=True, tag="held", tag_field="about"):
    """calc-svc has calculated nothing of a stream from this offset of a partition of ``triggers`` on, though
    its group has committed more: the rest is read again once the stream goes on, then this is deleted (a null
    value).

    ``waits``: what is not there yet, in words (rows that are not stored, say); empty: the stream is paused.
    Key: ``held/<stream uid>/<partition>``.
    """

    stream: int
    partition: int
    offset: int
    waits: str = ""


class Counters(msgspec.Struct, frozen=True, tag="counters", tag_field="about"):
    """What one task of a stream has counted since the stream was made: counter -> total, as ``wire.counters``
    defines them.

    ``slot``: the slot of trigger-svc, or the partition of the topic that the service reads. ``instance``: the
    process that counts (empty: any of the service's). ``upto``: the first offset of the partition whose
    record is not counted in: what is read again after a crash is not counted twice.
    Key: ``counters/<service>/<stream>/<slot>``.
    """

    service: str
    stream: int
    slot: int
    totals: dict[str, int]
    instance: str = ""
    upto: int = 0


class ReadUpTo(msgspec.Struct, frozen=True, tag="read", tag_field="about"):
    """How far trigger-svc has read and judged a topic: partition -> the first offset that it has not.
    Key: ``read/<topic>``."""

    topic: str
    offsets: dict[int, int]
    instance: str = ""


class Recalculation(msgspec.Struct, frozen=True, tag="recalculation", tag_field="about"):
    """How far a recalculation by hand, or a history, has come.

    Key: ``recalculation/<stream>/<partition>/<offset>``, where its (last) request stands. ``first``,
    ``last``: event times in ticks. ``state``: Running, Finished or Failed (``message`` says why).
    ``fraction``: 0 to 1. ``rows``: stored rows read; ``events``: trigger events sent. ``seconds_left``: until
    it is done if it goes on as it went so far; None while nothing can be said of that.
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


class Problem(msgspec.Struct, frozen=True, tag="problem", tag_field="about"):
    """What keeps a service from a part of its work, or what it has lost; deleted (a null value) once over.

    ``what``: the thing, as the key needs it: ``state``, ``table/<topic>``, ``gap/<topic>/<partition>``.
    It touches the streams that read one of these ``topics`` (WAL topics) or are one of ``streams``; all of
    them if ``everything``. ``control`` not None: what is lost is lost; a stream that was started by a later
    control record is not touched. ``stalled_since`` not empty: nothing has failed, but a part of the service
    (``what`` is ``stalled/<part>``) has not moved since that instant though something waits; it is told with
    the status. Key: ``problem/<service>/<what>``.
    """

    service: str
    what: str
    message: str
    topics: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    everything: bool = False
    control: int | None = None
    stalled_since: str = ""


AnyStatus = (
    Applied | StreamFailure | StreamPaused | TriggersHeld | Counters | ReadUpTo | Recalculation | Problem
)

PAUSED, HELD, COUNTERS, READ, PROBLEM = "paused/", "held/", "counters/", "read/", "problem/"
"""How the keys of these records begin."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyStatus] = msgspec.json.Decoder(AnyStatus)


def key(status: AnyStatus) -> bytes:
    match status:
        case Applied():
            return b"applied"
        case StreamFailure(stream=uid, slot=None):
            return f"failure/{uid}".encode()
        case StreamFailure(stream=uid, slot=slot):
            return f"failure/{uid}/{slot}".encode()
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
        case Problem(service=service, what=what):
            return f"{PROBLEM}{service}/{what}".encode()


def part_of(key: bytes) -> tuple[int, int]:
    """(stream uid, partition) of the key of a StreamPaused or TriggersHeld."""
    _, stream, partition = key.decode().split("/")
    return int(stream), int(partition)


def encode(status: AnyStatus) -> bytes:
    return _encoder.encode(status)


def decode(value: bytes) -> AnyStatus:
    return _decoder.decode(value)
