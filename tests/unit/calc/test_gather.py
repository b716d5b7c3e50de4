"""The store's reader gathers rows, but not while somebody waits for them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.calc.waiting import Behind, Wanted


def test_who_waits_ends_the_gathering(tmp_path: Path) -> None:
    store = TableStore(CatalogView(), tmp_path, 1_000)
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(store.reach, Wanted(catalog=5), 60)
        store.gather(3600)  # would end no test if it did not heed who waits
        store.catalog.position = 5
        store.moved()
        waits.result(60)
    store.gather(0)


def test_nobody_waits_after_a_wait_that_was_for_nothing(tmp_path: Path) -> None:
    store = TableStore(CatalogView(), tmp_path, 1_000)
    with pytest.raises(Behind):
        store.reach(Wanted(catalog=5), 0.001)
    assert store._waiting == 0
