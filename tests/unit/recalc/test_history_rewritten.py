"""Rows that are older than a stream and are written again once it is there: history has them all the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ...conftest import examples
from .conftest import ALL, CUT_AGAIN, make, same, same_but_empty, truth

VALUES = st.sampled_from([None, 1, 1, 2, 3])
old_rows = st.dictionaries(st.integers(0, 60), VALUES, min_size=1, max_size=12)
rewrites = st.lists(st.tuples(st.integers(0, 11), VALUES, st.booleans()), max_size=8)
"""Which of the old rows, what is written, whether a micro-batch ends there."""


def filled(kit: Any, name: str, first: bool, **options: Any) -> Any:
    fill = {"fill_history_first" if first else "fill_history": ALL}
    return make(kit, name, **fill, **options)


class Rewriting:
    """A stream that fills history, and whose old rows are written again."""

    def __init__(self, deployment: Any, folder: str, spec: Any, old: dict[int, Any]) -> None:
        self.together = deployment(Path(folder), spec)
        self.table = dict(old)
        for ts in sorted(old):
            self.together.write("c1", [{"ts": ts, "v": old[ts]}])
        self.together.run()
        self.together.define()
        self.times = sorted(old)
        self.together.newest = self.times[-1]

    def rewrite(self, steps: list[tuple[int, Any, bool]]) -> None:
        for place, value, cut in steps:
            ts = self.times[place % len(self.times)]
            self.together.write("c1", [{"ts": ts, "v": value}])
            self.table[ts] = value
            if cut:
                self.together.run()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(15, cases=True))
@given(old=old_rows, soon=rewrites, later=rewrites, flushed=st.booleans(), watermark=st.sampled_from([0, 6]))
def test_history_and_live_rows_are_all_rows_whatever_is_rewritten_when(
    kit: Any, deployment: Any, name: str, first: bool, old: dict[int, Any], soon: list[Any], later: list[Any],
    flushed: bool, watermark: int,
) -> None:  # fmt: skip
    spec = filled(kit, name, first, watermark=watermark, delete_recalc=True)
    with tempfile.TemporaryDirectory() as folder:
        world = Rewriting(deployment, folder, spec, old)
        if flushed:
            world.together.stored.evict_half()
        world.rewrite(soon)
        world.together.run()
        world.together.answer()
        world.rewrite(later)
        until = world.together.close_all(world.table)
        same_but_empty(name, world.together.windows(), truth(spec, world.table, until - watermark))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["interval", "overlapping", "session", "count", "sliding"])
@settings(max_examples=examples(15, cases=True))
@given(old=old_rows, soon=rewrites, flushed=st.booleans())
@example(old={0: 1, 30: 1}, soon=[(0, 2, True)], flushed=False)
def test_no_old_row_is_lost_where_live_rows_may_not_make_up_for_it(
    kit: Any, deployment: Any, name: str, first: bool, old: dict[int, Any], soon: list[Any], flushed: bool
) -> None:
    """With IGNORE_DISORDER the rewritten row calls for nothing: history alone tells of its window."""
    spec = filled(kit, name, first, ignore_disorder=True)
    with tempfile.TemporaryDirectory() as folder:
        world = Rewriting(deployment, folder, spec, old)
        if flushed:
            world.together.stored.evict_half()
        world.rewrite(soon)
        world.together.run()
        world.together.answer()
        until = world.together.close_all(world.table)
        told, true = world.together.windows(), truth(spec, world.table, until)
        if name in ("interval", "overlapping"):
            same_but_empty(name, told, true)
        else:
            same(told, true)
