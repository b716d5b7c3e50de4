"""What calculations wait for because it has not been read yet, and the triggers left in the log meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace_core.errors import ErrorCode, MillraceError

StreamPartition = tuple[int, int]
"""A stream (its uid) and a partition of ``triggers``, as a loop numbers it; a group lies in one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What must have been read: the catalog and these topics up to these offsets (exclusive), and the topics
    also up to their ends at the time when they were opened. ``opened``: a topic that need only be open.

    Nobody waits for a topic whose table the catalog does not know (any more). ``uids``: the uids of the
    tables that are meant, by topic: another table of the same name does not count.
    """

    catalog: int = 0
    wal: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    opened: str = ""
    uids: Mapping[str, int] = field(default_factory=dict)


class Behind(MillraceError):
    """The store has not read as far as ``wanted`` says; ``missing`` names what has not come."""

    def __init__(self, wanted: Wanted, missing: str, timeout: float) -> None:
        within = f"within {timeout:g} s" if timeout > 0 else "yet"
        super().__init__(ErrorCode.TIMEOUT, f"not read {within}: {missing}")
        self.wanted, self.missing = wanted, missing


class SetAside(MillraceError):
    """A stream's calculation takes longer than the others should wait: it goes on beside them."""

    def __init__(self) -> None:
        message = "its earlier triggers take a long time to calculate; other streams continue meanwhile"
        super().__init__(ErrorCode.TIMEOUT, message)


@dataclass(frozen=True, slots=True)
class Left:
    """The triggers of a stream and partition that cannot be calculated yet, from ``offset`` on. ``why``: what
    is missing, in words.

    ``wanted``: what the store must have read first; None: they are tried again at ``again`` (monotonic).
    ``upto``: triggers before this offset need no more than ``wanted`` from tables other than the trigger
    table: what was written there later does not belong to them (0: not known).
    """

    offset: int
    why: str
    wanted: Wanted | None = None
    again: float = 0.0
    upto: int = 0


def in_words(missing: str) -> str:
    """What users are told about triggers that wait until this has been stored."""
    return f"waits until this is stored: {missing}"
