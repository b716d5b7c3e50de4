"""When tables are flushed: soon where much waits, seldom where little does."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from calc_svc.loops.flusher import AGE, AGE_OF_FEW, FEW, Flusher, is_due
from calc_svc.store.catalog import CatalogView
from calc_svc.store.table import StoredTable
from calc_svc.store.tables import TableStore
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.rows.decoder import encode_rows

PLAIN = Table("d", "plain", "normal", 8, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))


def stored_with(folder: Path, rows: int) -> StoredTable:
    stored = StoredTable(PLAIN, folder, [], 1_000_000)
    fill(stored, rows)
    return stored


def fill(stored: StoredTable, rows: int) -> None:
    stored.resume({0: 0}, {0: 1})
    name = stored.table.name.encode()
    stored.take([name], [encode_rows([{"ts": number, "v": 1} for number in range(rows)])])
    stored.advance({0: 1})


def test_many_rows_are_due_soon_and_few_later(tmp_path: Path) -> None:
    now = time.monotonic()
    many, few = stored_with(tmp_path / "many", FEW), stored_with(tmp_path / "few", FEW - 1)
    assert (is_due(many, now), is_due(few, now)) == (False, False)
    assert (is_due(many, now + AGE + 1), is_due(few, now + AGE + 1)) == (True, False)
    assert is_due(few, now + AGE_OF_FEW + 1)


def test_what_was_flushed_is_not_due(tmp_path: Path) -> None:
    stored = stored_with(tmp_path, FEW)
    assert stored.flush() == FEW
    assert stored.unflushed == 0
    assert not is_due(stored, time.monotonic() + AGE_OF_FEW + 1)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """Three tables, of 20, 30 and 10 rows."""
    catalog = CatalogView()
    made = TableStore(catalog, tmp_path, 1_000_000)
    for number, (name, rows) in enumerate((("some", 20), ("most", 30), ("few", 10))):
        table = msgspec.structs.replace(PLAIN, name=name, uid=PLAIN.uid + number)
        catalog.apply(number, key_of(table), encode(table))
        fill(made.open(table), rows)
    return made


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are flushed, in order."""
    names, flush = list[str](), StoredTable.flush

    def noted(stored: StoredTable) -> int:
        names.append(stored.table.name)
        return flush(stored)

    monkeypatch.setattr(StoredTable, "flush", noted)
    return names


def test_what_has_waited_longest_is_flushed_first(
    store: TableStore, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.loops.flusher.TICK", 0.0)
    waited = {"few": 3.0, "some": 2.0, "most": 1.0}
    for stored in store.tables():
        stored._written_at = time.monotonic() - AGE_OF_FEW - waited[stored.table.name]
    Flusher(store).step()
    assert flushed == list(waited)


def test_at_the_end_most_is_flushed_first(store: TableStore, flushed: list[str]) -> None:
    """There may not be time for all."""
    flusher = Flusher(store)
    flusher.end()
    assert flushed == [], "it begins anew"
    flusher.stopping.set()
    flusher.end()
    assert flushed == ["most", "some", "few"]
