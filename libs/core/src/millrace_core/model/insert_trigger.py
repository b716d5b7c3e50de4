"""A trigger of IoTDB as the catalog keeps it: a user's class that is called for rows that are written."""

from __future__ import annotations

from typing import Literal

import msgspec

Strategy = Literal["OPTIMISTIC", "PESSIMISTIC"]


class DoneUpTo(msgspec.Struct, frozen=True, array_like=True):
    """Up to where a WAL topic has been dealt with. ``table``: the uid of its table; offsets of another table
    mean nothing. ``offsets``: partition -> offset."""

    topic: str
    table: int
    offsets: dict[int, int]


class InsertTrigger(msgspec.Struct, frozen=True):
    """``uid``: no earlier trigger had it, whatever its name. ``pattern``: over paths of series.

    ``file``: what the class is loaded from, below the trigger folder (None: the folder itself); ``sha256``:
    the hash of a file that came from ``uri``. ``strategy``: what the class answered when the trigger was
    created. ``owner``: the user as whom it writes. ``begins``: the ends of the topics when it was created; it
    never sees rows before them. ``created``: milliseconds. ``dropping``: DROP TRIGGER has begun, and
    ``on_drop`` may not have finished; a gateway that finds this when it starts calls ``on_drop``.
    """

    name: str
    uid: int
    stateful: bool
    before: bool
    pattern: str
    class_name: str
    attributes: dict[str, str]
    strategy: Strategy
    owner: str
    uri: str | None = None
    file: str | None = None
    sha256: str | None = None
    begins: tuple[DoneUpTo, ...] = ()
    created: int = 0
    dropping: bool = False
