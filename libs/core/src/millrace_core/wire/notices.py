"""Notifications on their way from calc-svc to notify-svc; ``event`` is already the seed's JSON object."""

from __future__ import annotations

import msgspec

from millrace_core.wire.reading import Format, strictly
from millrace_core.wire.topics import NOTIFICATIONS


class Notice(msgspec.Struct, frozen=True):
    """One event of one stream. ``group`` is the groupId as text; ``urls`` may be empty (subscribers only)."""

    stream: str
    group: str
    event: dict[str, object]
    urls: tuple[str, ...] = ()
    pause_on_failure: bool = False


class NoticeBatch(msgspec.Struct, frozen=True):
    """Notices of one stream, in order; all of one group travel under one key. ``uid``: the stream's."""

    notices: list[Notice]
    uid: int = 0


class ReadNotice(msgspec.Struct, frozen=True):
    """A :class:`Notice` as notify-svc reads it: ``event`` stays JSON text, which is passed on as it is."""

    stream: str
    group: str
    event: msgspec.Raw
    urls: tuple[str, ...] = ()
    pause_on_failure: bool = False

    @property
    def event_type(self) -> str:
        """The event's ``eventType``; empty if it has none."""
        return _type(self.event).eventType


class ReadBatch(msgspec.Struct, frozen=True):
    """A :class:`NoticeBatch` as notify-svc reads it."""

    notices: list[ReadNotice]
    uid: int = 0


class _Type(msgspec.Struct, frozen=True):
    eventType: str = ""  # noqa: N815 (the seed's name)


_encoder = msgspec.json.Encoder()
decode = strictly(msgspec.json.Decoder(NoticeBatch).decode)
read = strictly(msgspec.json.Decoder(ReadBatch).decode)
"""As :func:`decode`, without reading the events; it still detects events that are not JSON."""
BATCHES = Format(NOTIFICATIONS, read)
_type = msgspec.json.Decoder(_Type).decode


def encode(batch: NoticeBatch) -> bytes:
    return _encoder.encode(batch)
