"""Dead letters: messages that could not be used, with the cause and where they came from."""

from __future__ import annotations

import msgspec


class DeadLetter(msgspec.Struct, frozen=True):
    """``cause``: an ErrorCode name; ``detail``: the sentence; ``value``: the message (base64 in JSON)."""

    topic: str
    partition: int
    offset: int
    cause: str
    detail: str
    key: bytes | None
    value: bytes | None


def encode(letter: DeadLetter) -> bytes:
    return msgspec.json.encode(letter)


def decode(value: bytes) -> DeadLetter:
    return msgspec.json.decode(value, type=DeadLetter)
