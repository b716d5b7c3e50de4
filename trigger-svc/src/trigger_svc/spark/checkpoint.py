"""How far a micro-batch reads: Spark writes that to a file of its checkpoint before the batch begins.

Nothing else is read there, nothing is written, and the folder is removed when the query begins: the slots'
positions say where to go on. The file has one line each for a version, metadata, and the ends of each source
(here one) after the batch. Another format, or another Spark than the one whose files are known, is refused.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_spark import require_spark
from trigger_svc.ledger.states import BEGIN_ANEW, Positions, StateError

LINES = 3
VERSION = "v1"
"""The first line: the format that is known here."""


@lru_cache(maxsize=2)  # a batch asks for its own ends and for those of the batch before
def ends_behind(checkpoint: Path, batch: int) -> Positions:
    """The first offsets after the batch.

    :raises MillraceError: INTERNAL if Spark's file cannot be understood.
    """
    require_spark("reading the trigger query's offsets")
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text().splitlines()
        if len(lines) == LINES and lines[0] == VERSION:
            return msgspec.json.decode(lines[2], type=Positions)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        pass
    raise MillraceError(ErrorCode.INTERNAL, f"{path} does not contain the offsets of a micro-batch")


def taken_over(checkpoint: Path, batch: int) -> Positions:
    """The positions for states that were left by a batch of an older version, which kept positions only here.
    Later batches that changed no state have no list, and Spark forgets the ends of old batches; in that case,
    the first ends that are still known are as good.

    :raises StateError: if none are known.
    """
    numbers = (path.name for path in (checkpoint / "offsets").glob("*"))
    known = sorted(int(name) for name in numbers if name.isdecimal() and int(name) >= batch)
    try:
        return ends_behind(checkpoint, known[0] if known else batch)
    except MillraceError as error:
        begin_anew = BEGIN_ANEW.format(folder=checkpoint.parent)
        raise StateError(f"{error.message}; {begin_anew}") from error


forget = ends_behind.cache_clear
"""To be called before a query starts: it begins with batch 0 again."""
