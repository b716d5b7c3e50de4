"""When tables are flushed: soon where much waits, seldom where little does."""

from __future__ import annotations

import time
from pathlib import Path

from calc_svc.loops.flusher import AGE, AGE_OF_FEW, FEW, is_due
from calc_svc.store.table import StoredTable
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.rows.decoder import encode_rows

PLAIN = Table("d", "plain", "normal", 8, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))


def stored_with(folder: Path, rows: int) -> StoredTable:
    stored = StoredTable(PLAIN, folder, [], 1_000_000)
    stored.resume({0: 0}, {0: 1})
    stored.take([b"plain"], [encode_rows([{"ts": number, "v": 1} for number in range(rows)])])
    stored.advance({0: 1})
    return stored


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
