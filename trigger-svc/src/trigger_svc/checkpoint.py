"""The offsets in the query's checkpoint: what a batch read, and where one that is to come begins.

Spark's files, a line each: a version, metadata, then the ends of each source (here one) behind the batch.
That they may be changed between two runs of the query is promised by nobody: the module
``tests/integration/test_trigger.py`` fails where a new version of Spark minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from millrace_core.errors import ErrorCode, MillraceError

Ends = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the first offset that is not read."""


@lru_cache(maxsize=2)  # a batch asks for its own and for those of the one before
def ends_behind(checkpoint: Path, batch: int) -> Ends:
    """The first offsets behind the batch; :raises MillraceError: INTERNAL for a damaged checkpoint."""
    return _ends(_lines(_path(checkpoint, batch)))


def messages_in(checkpoint: Path, batch: int) -> int:
    """How many offsets a batch spans; those that hold no message any more (of a topic that was emptied) count
    too."""
    before = ends_behind(checkpoint, batch - 1) if batch else {}
    return sum(
        max(end - before.get(topic, {}).get(partition, 0), 0)
        for topic, partitions in ends_behind(checkpoint, batch).items()
        for partition, end in partitions.items()
    )


def not_read(checkpoint: Path, topics: Iterable[str]) -> frozenset[str]:
    """Those of the topics that the last batch knows nothing of; none before the first batch."""
    batches = _batches(checkpoint)
    return frozenset(topics) - ends_behind(checkpoint, batches[-1]).keys() if batches else frozenset()


def begin_at(checkpoint: Path, starts: Ends) -> None:
    """Have the query read topics that it has not read last from there on (all partitions of each must be
    told) instead of from their beginning. No query may run meanwhile.

    The last batch may run again, so both it and the one before it are told, for both to have read nothing of
    them. Should a crash leave the last one without, the next call tells both again.
    """
    for batch in _batches(checkpoint)[-2:]:
        _add(_path(checkpoint, batch), starts)
    ends_behind.cache_clear()


def _add(path: Path, fresh: Ends) -> None:
    lines = _lines(path)
    lines[2] = msgspec.json.encode({**_ends(lines), **fresh}).decode()
    new = path.with_name(f".{path.name}.new")
    new.write_text("\n".join(lines))
    # the sum is of what was there; a file without one is not checked
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    new.replace(path)


def _lines(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    if len(lines) != 3:
        raise MillraceError(ErrorCode.INTERNAL, f"{path} is no list of offsets: the checkpoint is damaged")
    return lines


def _ends(lines: list[str]) -> Ends:
    return msgspec.json.decode(lines[2], type=dict[str, dict[int, int]])


def _batches(checkpoint: Path) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / "offsets").glob("*") if path.name.isdecimal())


def _path(checkpoint: Path, batch: int) -> Path:
    return checkpoint / "offsets" / str(batch)
