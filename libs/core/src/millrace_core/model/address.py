"""Addresses of receivers in the form in which they are shown: without passwords."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

HIDDEN = "***"
_PARTS = re.compile(
    r"""(?P<comment>--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)
    |`(?:[^`]++|``)++`
    |(?P<text>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")""",
    re.VERBOSE | re.DOTALL,
)
"""The parts of SQL that may contain quotes."""
_ESCAPED = re.compile(r"\\(.)|('|\")\2", re.DOTALL)
_LOGIN = re.compile(r"(://[^\s/:@]*):[^\s/@]*@")


def shown(url: str) -> str:
    """``ws://user:***@host:port/…`` for ``ws://user:secret@host:port/…``."""
    parts = urlsplit(url)
    before, at, _ = parts.netloc.rpartition("@")
    user, colon, _ = before.partition(":")
    if not at or not colon:
        return url
    return url.replace(f"{before}@", f"{user}:{HIDDEN}@", 1)


def without_passwords(sql: str) -> str:
    """The statement with its addresses as they are shown, however the statement writes them."""
    return _PARTS.sub(_part, sql)


def _part(found: re.Match[str]) -> str:
    if found["comment"] is not None:
        return _LOGIN.sub(rf"\1:{HIDDEN}@", found[0])
    if found["text"] is None:
        return found[0]
    value = _ESCAPED.sub(lambda one: one[1] or one[2], found["text"][1:-1])
    if "://" not in value or "@" not in value:
        return found[0]
    try:
        safe = shown(value)
    except ValueError:
        safe = HIDDEN
    return found[0] if safe == value else "'" + safe.replace("\\", "\\\\").replace("'", "\\'") + "'"
