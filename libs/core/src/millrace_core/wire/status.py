"""Acknowledgements and counters that trigger-svc and calc-svc leave for the gateway (compacted)."""

from __future__ import annotations

import msgspec


class Applied(msgspec.Struct, frozen=True, tag="applied", tag_field="about"):
    """trigger-svc has put all control records up to and with this offset in force. Key: ``applied``."""

    control: int


class StreamFailure(msgspec.Struct, frozen=True, tag="failure", tag_field="about"):
    """A calculation of a stream failed for good. Key: ``failure/<stream uid>``.

    ``message`` is empty once the stream is well again.
    """

    stream: int
    message: str


class Counters(msgspec.Struct, frozen=True, tag="counters", tag_field="about"):
    """Totals by cause (rows, late, expired, undecodable, …).

    Key: ``counters/<service>/<stream>/<slot>``.
    """

    service: str
    stream: int
    slot: int
    totals: dict[str, int]


AnyStatus = Applied | StreamFailure | Counters

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyStatus] = msgspec.json.Decoder(AnyStatus)


def key(status: AnyStatus) -> bytes:
    match status:
        case Applied():
            return b"applied"
        case StreamFailure(stream=uid):
            return f"failure/{uid}".encode()
        case Counters(service=service, stream=uid, slot=slot):
            return f"counters/{service}/{uid}/{slot}".encode()


def encode(status: AnyStatus) -> bytes:
    return _encoder.encode(status)


def decode(value: bytes) -> AnyStatus:
    return _decoder.decode(value)
