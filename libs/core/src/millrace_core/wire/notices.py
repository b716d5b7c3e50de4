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


class NoticeText(msgspec.Struct, frozen=True):
    """A :class:`Notice` whose event is JSON text, as calc-svc writes it and notify-svc passes it on. To write
    the text takes a quarter of the time of an object that is then encoded."""

    stream: str
    group: str
    text: msgspec.Raw = msgspec.field(name="event")
    urls: tuple[str, ...] = ()
    pause_on_failure: bool = False

    @property
    def event(self) -> dict[str, object]:
        """The event as an object."""
        return _object(self.text)

    @property
    def event_type(self) -> str:
        """The event's ``eventType``; empty if it has none."""
        return _type(self.text).eventType


class NoticeBatch(msgspec.Struct, frozen=True):
    """Notices of one stream, in order; all of one group travel under one key. ``uid``: the stream's."""

    notices: list[Notice]
    uid: int = 0


class TextBatch(msgspec.Struct, frozen=True):
    """A :class:`NoticeBatch` with its events as text."""

    notices: list[NoticeText]
    uid: int = 0


class _Type(msgspec.Struct, frozen=True):
    eventType: str = ""  # noqa: N815 (the seed's name)


_encoder = msgspec.json.Encoder()
decode = strictly(msgspec.json.Decoder(NoticeBatch).decode)
read = strictly(msgspec.json.Decoder(TextBatch).decode)
"""As :func:`decode`, without reading the events; it still detects events that are not JSON."""
BATCHES = Format(NOTIFICATIONS, read)
_type = msgspec.json.Decoder(_Type).decode
_object = msgspec.json.Decoder(dict[str, object]).decode


def encode(batch: NoticeBatch | TextBatch) -> bytes:
    return _encoder.encode(batch)
