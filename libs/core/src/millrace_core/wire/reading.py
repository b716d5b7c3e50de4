"""How messages are read: whatever cannot be understood, in any topic, becomes one kind of error that states
the cause.

Anybody who may write to the broker may write anything to any topic. A reader passes over a message that is
not Millrace's, or comes from a newer version; the service that ``wire.topics`` names for the topic makes a
dead letter of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

import msgspec

from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.schema import MAX_NAME
from millrace_core.wire.topics import Topic

T = TypeVar("T")

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding arbitrary bytes may raise; they may be nested thousands of levels deep."""

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""For numbers that are used in arrays: one beyond 64 bits would otherwise fail only there."""

SHOWN = 64
"""Characters of a key that an error shows."""


def strictly(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The decoder, with a :class:`WireError` (UNDECODABLE) for whatever it cannot decode."""

    def decoded(value: bytes) -> T:
        try:
            return decode(value)
        except MALFORMED as error:
            raise undecodable(f"the value: {error}") from error

    return decoded


class Format(Generic[T]):
    """The messages of one topic, deletions apart.

    ``decode``: reads a value, :raises WireError: for one that it cannot read; ``key_of``: gives the key under
    which such a message is sent (None: the key does not follow from the value).
    """

    def __init__(
        self, topic: Topic, decode: Callable[[bytes], T], key_of: Callable[[T], bytes] | None = None
    ) -> None:
        self.topic, self._decode, self._key_of = topic, decode, key_of

    def deletes(self, value: bytes | None) -> bool:
        """Whether a message with this value deletes its key, and says nothing else."""
        return value is None and self.topic.compacted

    def read(self, key: bytes | None, value: bytes | None) -> T:
        """What a message says.

        :raises WireError: UNDECODABLE for a message that does not fit the topic.
        """
        if self.topic.keyed:
            text_of(key)
        elif key is not None:
            raise undecodable(
                f"the key is {shown(key)}, but messages of the topic {self.topic.name} have none"
            )
        if value is None:
            raise undecodable("the message has no value")
        found = self._decode(value)
        if self._key_of is not None and key != (wanted := self._key_of(found)):
            raise undecodable(f"the key is {shown(key)}, but with this value it must be {shown(wanted)}")
        return found


def undecodable(detail: str) -> WireError:
    """The error that says why a message cannot be understood."""
    return WireError(ErrorCode.UNDECODABLE, detail)


def text_of(key: bytes | None) -> str:
    """A message's key.

    :raises WireError: UNDECODABLE if there is none, or it is not text.
    """
    if key is None:
        raise undecodable("the message has no key")
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise undecodable(f"the key is not valid UTF-8: {error.reason} at byte {error.start}") from error


def name_of(key: bytes) -> str:
    """The table that a WAL message's key names.

    :raises WireError: UNDECODABLE for a key that cannot be the name of a table.
    """
    if not key:
        raise undecodable("the key is empty, but it must name a table")
    if len(key) > MAX_NAME:
        raise undecodable(f"the key has {len(key)} bytes, but a table name has at most {MAX_NAME}")
    return text_of(key)


def shown(key: bytes | None) -> str:
    """A key in a form for people to read."""
    if key is None:
        return "null"
    text = key[:SHOWN].decode(errors="backslashreplace")
    return f"{text}…" if len(key) > SHOWN else text
