"""What VERIFY STREAM cuts in one go is what live rows, late ones and recalculations led to in the end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from calc_svc.jobs.verify_rows import JudgedRows
from millrace_core.recalc.judged import Judged
from millrace_core.recalc.verify import cut_range
from millrace_core.trigger.stream import compiled, essence

SHAPES: dict[str, tuple[dict[str, Any], bool]] = {
    "interval": ({"watermark": 3}, True),
    "overlap": ({"interval": 12, "sliding": 5}, True),
    "session": ({"trigger": {"Session": {"gap": 4}}}, True),
    "state": ({"trigger": {"State": {"column": "v"}}, "watermark": 2}, True),
    "sliding": ({"trigger": {"Sliding": {"sliding": 10}}, "watermark": 2}, False),
    "count": ({"trigger": {"Count": {"count": 3, "sliding": 2}}}, False),
}
"""Stream, and whether rows may come late: where they are ignored the batch differs by rule."""


@pytest.mark.parametrize("name", SHAPES)
def test_the_batch_gives_the_windows_that_were_told(
    kit: Any, deployment: Any, tmp_path: Path, name: str
) -> None:
    shape, late = SHAPES[name]
    drawn = random.Random(name)
    spec = kit.stream(**shape)
    together = deployment(tmp_path, spec)
    together.write("c1", [2, 9, 17])  # older than the stream
    together.run()
    together.define()
    together.run()
    ts = 100
    for _ in range(12):
        rows = []
        for _ in range(drawn.randint(1, 4)):
            ts += drawn.randint(1, 9)
            back = drawn.randint(1, 30) if late and drawn.random() < 0.3 else 0
            rows.append([max(ts - back, 101), drawn.randint(1, 2)])
        together.write("c1", rows)
        together.run()
        together.answer()
    rows_of = JudgedRows(compiled(essence(spec)), together.stored)
    ((group, children),) = rows_of.groups(0, 1).items()
    read = rows_of.judged(group, children, Judged({0: 1}))
    newest = int(read(0, 1000).rows.ts[-1])
    until = newest - rows_of.definition.clock.watermark
    whole = cut_range(rows_of.definition.windower, (0, 1000), until, read).judged
    batch = dict(zip(whole.start.tolist(), whole.end.tolist(), strict=True))
    told = {start: end for start, (end, _) in together.windows().items()}
    assert batch.items() <= told.items()
    # windows that are no more stay told of where nobody wants to know
    assert all(start in batch for start in told if name in ("interval", "overlap", "sliding", "count"))
    assert len(batch) > 5
    first, last = 130, 150
    part = cut_range(rows_of.definition.windower, (first, last), until, read).judged
    assert set(zip(part.start.tolist(), part.end.tolist(), strict=True)) == {
        (start, end) for start, end in batch.items() if _touches(name, start, end, first, last)
    }


def _touches(name: str, start: int, end: int, first: int, last: int) -> bool:
    if name == "sliding":
        return first <= end <= last
    return start <= last and (end > first if name in ("interval", "overlap") else end >= first)
