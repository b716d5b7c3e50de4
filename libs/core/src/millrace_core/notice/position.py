"""Where a subscriber stands in the log of notifications, and how it is written: ``0:120,3:7.2``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from millrace_core.errors import ErrorCode, MillraceError

Cursor = tuple[int, int]
"""The offset of the first record that is not done, and how many of its notices are done."""
Positions = Mapping[int, Cursor]
"""By partition."""

_PART = re.compile(r"(\d{1,9}):(\d{1,18})(?:\.(\d{1,9}))?")


def write(positions: Positions) -> str:
    """The text for a message, which :func:`read` understands. Its form is no business of anybody else."""
    return ",".join(
        f"{partition}:{offset}.{done}" if done else f"{partition}:{offset}"
        for partition, (offset, done) in sorted(positions.items())
    )


def read(text: str) -> dict[int, Cursor]:
    """:raises MillraceError: INVALID_VALUE for a text that :func:`write` cannot have written."""
    found: dict[int, Cursor] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or int(match[1]) in found:
            raise MillraceError(
                ErrorCode.INVALID_VALUE,
                f"after={text}: not a valid position; use the `position` of a message, or `earliest`",
            )
        found[int(match[1])] = int(match[2]), int(match[3] or 0)
    return found


def latest(one: Positions, other: Positions) -> dict[int, Cursor]:
    """Where both are done: in each partition the later cursor."""
    found = dict(one)
    for partition, cursor in other.items():
        found[partition] = max(cursor, found.get(partition, cursor))
    return found
