r"""Field names that msgspec does not take, in caret notation.

A msgspec field cannot be called by a name with ``"``, ``\`` or control characters, and a column can: a
result without alias has its text as name (``concat("a", x)``). Such a character becomes DEL and a printable
one (DEL itself too, so that no two names meet), in the field's name and in the keys of a message alike; what
msgspec then says of the keys is turned back.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_MARK: Final = "\x7f"
_PRINTABLE = {chr(code): chr(code + 0x40) for code in range(0x20)} | {'"': "'", "\\": "/", _MARK: "?"}
_TO_CARET = str.maketrans({char: _MARK + shown for char, shown in _PRINTABLE.items()})
_FROM_CARET = {shown: char for char, shown in _PRINTABLE.items()}
_CARET = re.compile(f"{_MARK}([{re.escape(''.join(_FROM_CARET))}])")
# every string, to its end or the message's, so that the next one begins where it does; group 1: it is a key
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"([ \t\r\n]*+:)?|\\?\Z)', re.DOTALL)


def caret(name: str) -> str:
    """The name as msgspec takes it; the name itself if it may stay as it is."""
    return name.translate(_TO_CARET)


def from_caret(text: str) -> str:
    """A text in which names are in caret notation, with the names as they are."""
    return _CARET.sub(lambda found: _FROM_CARET[found[1]], text)


def caret_keys(value: bytes) -> bytes:
    """JSON with all keys of its objects in caret notation. What was malformed still is, and at the same byte:
    blanks fill up what gets shorter (longer gets only a key with a DEL that is not escaped)."""
    if b"\\" not in value and b"\x7f" not in value:
        return value
    return _STRING.sub(_key, value)


def _key(found: re.Match[bytes]) -> bytes:
    whole, colon = found[0], found[1]
    if colon is None or (b"\\" not in whole and b"\x7f" not in whole):
        return whole
    token = whole[: len(whole) - len(colon)]
    try:
        name = msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return whole  # for the decoder of the whole message to find
    key = msgspec.json.encode(caret(name))
    return key + b" " * (len(token) - len(key)) + colon
