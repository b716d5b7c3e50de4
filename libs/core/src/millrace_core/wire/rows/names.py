r"""Field names that msgspec does not take, in caret notation.

The name of a msgspec field cannot have ``"``, ``\`` or control characters, but that of a column can: a result
without an alias has its text as its name (``concat("a", x)``). Such a character becomes DEL and a printable
character (DEL itself too, so that no two names collide), both in the field's name and in the keys of a
message. In msgspec's error messages, names are converted back.
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
# every string, up to its end or that of the message, so that the next one is found where it begins; group 1:
# it is a key
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"([ \t\r\n]*+:)?|\\?\Z)', re.DOTALL)


def caret(name: str) -> str:
    """The name as msgspec takes it; the name itself if it may stay as it is."""
    return name.translate(_TO_CARET)


def from_caret(text: str) -> str:
    """The text with its names converted back from caret notation."""
    return _CARET.sub(lambda found: _FROM_CARET[found[1]], text)


def caret_keys(value: bytes) -> bytes:
    """JSON with all keys of its objects in caret notation. Malformed JSON stays malformed, at the same byte:
    blanks fill up a key that gets shorter (only a key with an unescaped DEL gets longer)."""
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
        return whole  # the decoder of the whole message will find the error
    key = msgspec.json.encode(caret(name))
    return key + b" " * (len(token) - len(key)) + colon
