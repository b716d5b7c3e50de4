"""The offsets in the query's checkpoint: what a batch read, and where one that is to come begins.

Spark's files, a line each: a version, metadata, then the ends of each source (here one) behind the batch.
That they may be changed between two runs of the query is promised by nobody. So nothing is
changed where Spark is another than the one whose files are known, or a file says that it has another format;
and ``tests/integration/test_trigger.py`` fails where a new version minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from millrace_spark import require_spark
from trigger_svc.states import BEGIN_ANEW, StateError, sync

LINES = {"commits": 2, "offsets": 3}
"""Lines of a file that is whole."""
VERSION = "v1"
"""The first of them: the format that is known here."""
Ends = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the first offset that is not read."""


@lru_cache(maxsize=2)  # a batch asks for its own and for those of the one before
def ends_behind(checkpoint: Path, batch: int) -> Ends:
    """The first offsets behind the batch; :raises StateError: if the checkpoint is damaged."""
    path = _path(checkpoint, batch)
    try:
        return _ends(_lines(path))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _damaged(path) from None


def messages_in(checkpoint: Path, batch: int) -> int:
    """How many offsets a batch spans; those that hold no message any more (of a topic that was emptied) count
    too."""
    before = ends_behind(checkpoint, batch - 1) if batch else {}
    return sum(
        max(end - before.get(topic, {}).get(partition, 0), 0)
        for topic, partitions in ends_behind(checkpoint, batch).items()
        for partition, end in partitions.items()
    )


def next_batch(checkpoint: Path) -> int:
    """The number of the micro-batch that the query runs first when it starts.

    :raises StateError: if the checkpoint is damaged.
    """
    ends_behind.cache_clear()
    planned = _batches(checkpoint)
    for batch in planned[-2:]:
        ends_behind(checkpoint, batch)
    done = _batches(checkpoint, "commits")
    last = max(planned[-1:] + done[-1:], default=-1)
    return last + 1 if last in done else max(last, 0)


def mend(checkpoint: Path) -> list[Path]:
    """Remove what a power failure left half written, if the query does as well without it: that the last
    batch is done (it runs again then), or what the next one was to read. What was removed; no query may
    run."""
    require_spark("what mends the trigger query's checkpoint")
    torn = []
    done = _batches(checkpoint, "commits")[-1:]
    planned = [batch for batch in _batches(checkpoint)[-1:] if batch not in done]
    for what, batches in (("commits", done), ("offsets", planned)):
        for path in (checkpoint / what / str(batch) for batch in batches):
            if len(path.read_bytes().splitlines()) < LINES[what]:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                torn.append(path)
    return torn


def keep_plan(checkpoint: Path, batch: int) -> None:
    """What the batch reads is on the disk when this returns: should it run again after a power failure, it
    reads the same."""
    path = _path(checkpoint, batch)
    if path.exists():  # else nobody planned it: a test
        sync([path, path.parent])


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
    require_spark("what puts topics into the trigger query's checkpoint")
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
    if len(lines) != LINES["offsets"] or lines[0] != VERSION:
        raise _damaged(path)
    return lines


def _damaged(path: Path) -> StateError:
    return StateError(
        f"{path} is damaged: it does not tell offsets; {BEGIN_ANEW.format(folder=path.parents[2])}"
    )


def _ends(lines: list[str]) -> Ends:
    return msgspec.json.decode(lines[2], type=dict[str, dict[int, int]])


def _batches(checkpoint: Path, what: str = "offsets") -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / what).glob("*") if path.name.isdecimal())


def _path(checkpoint: Path, batch: int) -> Path:
    return checkpoint / "offsets" / str(batch)
