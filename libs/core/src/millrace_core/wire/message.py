"""A message that is to be sent, whoever sends it."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """A message to send. Messages of one topic and key lie in one partition, in the order of sending; a null
    value deletes the key from a compacted topic. ``traceparent``: the header (W3C) of a message that is
    traced; if it is empty, the message has no headers."""

    topic: str
    key: bytes | None
    value: bytes | None
    traceparent: str = ""
