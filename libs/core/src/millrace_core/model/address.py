"""Addresses of receivers as they are shown: without their passwords."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

HIDDEN = "***"


def shown(url: str) -> str:
    """``ws://user:***@host:port/…`` for ``ws://user:secret@host:port/…``."""
    parts = urlsplit(url)
    before, at, _ = parts.netloc.rpartition("@")
    user, colon, _ = before.partition(":")
    if not at or not colon:
        return url
    return url.replace(f"{before}@", f"{user}:{HIDDEN}@", 1)


def without_passwords(text: str, urls: Iterable[str]) -> str:
    """A text with these addresses in it, as they are shown."""
    for url in urls:
        text = text.replace(url, shown(url))
    return text
