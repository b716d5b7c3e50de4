"""Notifications on their way from calc-svc to notify-svc; ``event`` is already the seed's JSON object."""

from __future__ import annotations

import msgspec


class Notice(msgspec.Struct, frozen=True):
    """One event of one stream. ``group`` is the groupId as text; ``urls`` may be empty (subscribers only)."""

    stream: str
    group: str
    event: dict[str, object]
    urls: tuple[str, ...] = ()
    pause_on_failure: bool = False


class NoticeBatch(msgspec.Struct, frozen=True):
    """Notices in order; all of one group of one stream travel under one key."""

    notices: list[Notice]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(NoticeBatch)


def encode(batch: NoticeBatch) -> bytes:
    return _encoder.encode(batch)


def decode(value: bytes) -> NoticeBatch:
    return _decoder.decode(value)
