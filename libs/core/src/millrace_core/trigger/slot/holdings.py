"""How much a slot may keep of one stream: without a limit, one stream could take the memory of all others."""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.trigger.groups.columns import OWNER
from millrace_core.trigger.slot.hosted import AnyStream

MOST = 2_000_000
"""The most groups, open windows and waiting rows, each, that a slot keeps of one stream, unless a setting
says otherwise."""


class Holdings(NamedTuple):
    """``groups``: those that are evaluated here, and those whose rows are sent on by their keys. ``windows``:
    the open windows, for types that may have several per group. ``waiting``: rows that wait for T."""

    groups: int
    windows: int
    waiting: int


def holdings(stream: AnyStream) -> Holdings:
    """What the slot keeps of a stream now."""
    open_ = stream.memory.lists.get("open", stream.state.delays.lists.get("windows"))
    divided = sum(len(ids) for ids in stream.life.divided.values())
    return Holdings(
        len(stream.groups) + divided,
        0 if open_ is None else len(open_[OWNER]),
        len(stream.clock.lists["waiting"][OWNER]),
    )


def check(stream: AnyStream, most: int) -> None:
    """:raises MillraceError: TOO_LARGE if a stream has more than ``most`` of anything: it fails, and the
    others go on."""
    for count, what in zip(
        holdings(stream), ("groups", "open windows", "rows waiting for the watermark"), strict=True
    ):
        if count > most:
            raise MillraceError(
                ErrorCode.TOO_LARGE,
                f"it has {count} {what} in slot {stream.slot}; at most {most} are allowed "
                "(MILLRACE_TRIGGER_MOST_HELD)",
            )
