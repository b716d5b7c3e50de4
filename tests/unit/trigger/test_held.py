"""What becomes of rows that were held while history was read."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace_core.model.stream import Duration
from millrace_core.trigger.groups.watermark import Arrivals
from millrace_core.trigger.stream.past import Gone, Held
from millrace_core.trigger.stream.versions import held_in_turns, remaining

from .test_stream_parts import judged, kept


def test_a_part_of_a_row_counts_as_one_where_it_comes_behind_what_its_group_had(kit: Any) -> None:
    """In the order of the log: a row of its own is evaluated, one that rewrites another is asked for."""
    state = kept(kit, ignore_disorder=True)
    judged(state, (0, 5))
    ts = np.array([4, 6, 9, 9], dtype=np.int64)
    zero = np.zeros(4, dtype=np.int64)
    partial, lost = np.array([True, True, False, True]), np.zeros(4, dtype=bool)
    held = Held(Arrivals(zero, ts), zero, zero, lost, partial)
    turns = [
        (rows.ts.tolist(), versions.ts.tolist(), versions.unnamed.all())
        for rows, _, versions in held_in_turns(state, held)
    ]
    assert turns == [([], [4], True), ([6, 9], [9], True)]


def test_what_remains_is_in_order_of_time_and_without_what_is_gone(kit: Any) -> None:
    state = kept(kit, watermark=Duration(3, "a"))
    judged(state, (0, 1), (0, 5))
    ts = np.array([9, 4, 7, 1, 8, 7], dtype=np.int64)
    zero, no = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=bool)
    lost = np.array([False, False, False, False, False, True])
    held = Held(Arrivals(zero, ts), zero, zero + 1, lost, no)
    gone = [Gone(1, 0, 8, 8, False), Gone(0, 0, 9, 9, False)]
    rows, _, versions = remaining(state, held, gone)
    # T is 2, so 1 is late; 7 has been left out, 8 deleted; 9 came behind its delete
    assert rows.ts.tolist() == [4, 9]
    assert (versions.ts.tolist(), versions.unnamed.tolist()) == ([1], [True])
