"""Which of TDengine's two stream dialects a CREATE STREAM is in: the first word after the name tells."""

from __future__ import annotations

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.cursor import Cursor

OPTIONS = ("trigger", "watermark", "ignore", "delete_mark", "fill_history")
"""Words with which an option of the older dialect begins."""
OLDER = (*OPTIONS, "subtable")
"""Words of the older dialect that the newer one does not have where clauses begin."""
FIRST = (*OPTIONS, "into", "as")
"""Words that can follow the name of a stream of the older dialect."""
NEWER = (
    "period", "sliding", "interval", "session", "state_window", "event_window", "count_window", "from",
    "partition", "stream_options", "notify", "notify_options", "output_subtable",
)  # fmt: skip
"""Words of the newer dialect that the older one does not allow between the stream's name and AS."""
OLDER_OPTIONS = (
    "trigger", "ignore", "delete_mark", "at_once", "force_window_close", "continuous_window_close",
    "recalculate",
)  # fmt: skip
"""Words of the older dialect's options that STREAM_OPTIONS does not have."""


def is_older(cursor: Cursor) -> bool:
    """Whether a CREATE STREAM is in the older dialect. The cursor stands after CREATE STREAM, and stays
    there. What is not a stream at all is left to the newer dialect's grammar, which says what is missing."""
    place = cursor.place
    try:
        cursor.exists(negated=True)
        cursor.qualified("a stream name")
        return any(cursor.at(word) for word in FIRST)
    except SqlError:
        return False
    finally:
        cursor.place = place


def check_unmixed(cursor: Cursor, chosen: str, *, older: bool) -> None:
    """Refuse a clause of the other dialect. ``chosen``: the word that put the stream into this dialect.

    :raises SqlError: SYNTAX if a word of the other dialect comes next; it says which word belongs to which.
    """
    word = next((word for word in (NEWER if older else OLDER) if cursor.at(word)), None)
    if word is not None:
        raise mixed(
            word.upper(),
            cursor.here(),
            f"{chosen.upper()} after the stream's name makes this a stream of the {_NAMES[older]} one",
            older=older,
        )


_NAMES = {True: "older", False: "newer"}


def mixed(what: str, where: Position, why: str, *, older: bool) -> SqlError:
    """The error to raise for what belongs to the other dialect; ``older``: whether the stream is in
    the older one."""
    return SqlError(
        ErrorCode.SYNTAX, f"{what} belongs to the {_NAMES[not older]} stream dialect, but {why}", where
    )
