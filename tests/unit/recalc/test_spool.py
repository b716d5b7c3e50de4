"""Batches that wait to be sent come out as they went in, from memory and from a file."""

from __future__ import annotations

import pytest

from calc_svc.jobs.spool import Spool
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_batches_come_out_in_order(limit: int) -> None:
    group = Group(5, ("c1",), "c1")
    batches = [
        TriggerBatch(
            1, 0, -1, number, {0: 7}, [TriggerEvent("i", "CLOSE", "HISTORY", group, number, 9, 3, 0)]
        )
        for number in range(50)
    ]
    with Spool(limit) as spool:
        for batch in batches:
            spool.add(batch)
        assert list(spool.replay()) == batches


def test_nothing_comes_out_of_an_empty_one() -> None:
    with Spool() as spool:
        assert list(spool.replay()) == []
