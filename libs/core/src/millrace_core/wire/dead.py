"""Dead letters: messages that could not be used, with the cause and where they came from.

``schemas/dead-letter.schema.json`` says the same of the JSON.
"""

from __future__ import annotations

import hashlib

import msgspec

from millrace_core.errors import MillraceError

LARGEST = 6 * 1024 * 1024
"""Bytes of a letter, well below what a log takes (8 MiB): a letter always fits."""
KEPT = 64 * 1024
"""Bytes of a key or value that a letter carries if the whole would be too large."""
DETAIL = 2_000
"""The most characters of the sentence, which may quote the message."""


class Whole(msgspec.Struct, frozen=True):
    """What was cut: how many bytes it had, and their SHA-256 in hexadecimal."""

    length: int
    sha256: str


class DeadLetter(msgspec.Struct, frozen=True):
    """``cause``: an ErrorCode name; ``detail``: the sentence; ``key``, ``value``: the message's (base64 in
    JSON). ``truncated``: an entry for ``key`` or ``value`` if only its first bytes are here. ``service``: who
    wrote the letter."""

    topic: str
    partition: int
    offset: int
    cause: str
    detail: str
    key: bytes | None
    value: bytes | None
    truncated: dict[str, Whole] = {}
    service: str = ""


def letter(
    topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, error: MillraceError,
    service: str,
) -> DeadLetter:  # fmt: skip
    """The letter of a message at this place: the same whenever it is made."""
    truncated: dict[str, Whole] = {}
    # base64 makes four bytes of three
    if (len(key or b"") + len(value or b"")) * 4 // 3 > LARGEST - 8 * DETAIL:
        key, value = _cut("key", key, truncated), _cut("value", value, truncated)
    detail = error.message
    if len(detail) > DETAIL:
        detail = f"{detail[:DETAIL]}… ({len(detail)} characters)"
    return DeadLetter(topic, partition, offset, error.code.name, detail, key, value, truncated, service)


def _cut(name: str, whole: bytes | None, truncated: dict[str, Whole]) -> bytes | None:
    if whole is None or len(whole) <= KEPT:
        return whole
    truncated[name] = Whole(len(whole), hashlib.sha256(whole).hexdigest())
    return whole[:KEPT]


def encode(letter: DeadLetter) -> bytes:
    return msgspec.json.encode(letter)


def decode(value: bytes) -> DeadLetter:
    return msgspec.json.decode(value, type=DeadLetter)
