"""Which of TDengine's two stream dialects a CREATE STREAM is in: the first word behind the name says so."""

from __future__ import annotations

from millrace_core.dialect.cursor import Cursor
from millrace_core.errors import ErrorCode, SqlError

FIRST = ("trigger", "watermark", "ignore", "delete_mark", "fill_history", "into", "as")
"""Words with which a stream of the older dialect goes on behind its name."""
OLDER = ("trigger", "watermark", "ignore", "delete_mark", "fill_history", "subtable")
"""Words of the older dialect that the newer one does not have where clauses begin."""
NEWER = (
    "period", "sliding", "interval", "session", "state_window", "event_window", "count_window", "from",
    "partition", "stream_options", "notify", "notify_options", "output_subtable",
)  # fmt: skip
"""Words of the newer dialect that the older one does not have between the stream's name and AS."""


def is_older(cursor: Cursor) -> bool:
    """Whether a CREATE STREAM is one of the older dialect. The cursor stands behind CREATE STREAM, and stays
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
    """Refuse a clause of the other dialect. ``chosen``: the word that made the stream one of this dialect.

    :raises SqlError: SYNTAX if a word of the other dialect comes next: which word belongs to which.
    """
    names = {True: "older", False: "newer"}
    word = next((word for word in (NEWER if older else OLDER) if cursor.at(word)), None)
    if word is not None:
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{word.upper()} belongs to the {names[not older]} stream dialect, but {chosen.upper()} behind "
            f"the stream's name makes this a stream of the {names[older]} one",
            cursor.here(),
        )
