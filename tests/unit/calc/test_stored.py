"""What calc-svc tells of its files, for topics to be trimmed; and rows older than KEEP."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import polars as pl
import pytest

from calc_svc.loops.flusher import Flusher
from calc_svc.store import delta
from calc_svc.store.stored import EVERY, StoredReport, store_id
from millrace_core.model.schema import Database
from millrace_core.wire import status
from millrace_core.wire.status import Stored
from millrace_core.wire.topics import STATUS
from millrace_wal import replay

from .conftest import METERS, PLAIN, TOPIC, Running, eventually, row

DAY = 86_400_000


def told(running: Running) -> dict[bytes, Stored | None]:
    found: dict[bytes, Stored | None] = {}
    for record in replay(running.log, STATUS.name):
        if not (record.key or b"").startswith(b"stored/"):
            continue
        news = None if record.value is None else status.decode(record.value)
        assert news is None or isinstance(news, Stored)
        found[record.key or b""] = news
    return found


def flush(running: Running) -> None:
    running.wait()
    for stored in running.store.tables():
        stored.flush()


def test_what_is_in_files_is_told_once_and_forgotten_with_its_table(running: Running) -> None:
    report = StoredReport(running.log, running.catalog, running.store, "a")
    report.step(0.0)
    assert told(running) == {}, "nothing is in files"
    running.send("m1", row(0))
    flush(running)
    report.step(EVERY - 0.1)
    assert told(running) == {}, "not so soon"
    report.step(EVERY)
    ((key, one),) = told(running).items()
    assert key.decode() == f"stored/a/{TOPIC}"
    assert one == Stored("a", TOPIC, METERS.uid, running.log.end_offsets(TOPIC))
    before = len(list(replay(running.log, STATUS.name)))
    report.step(2 * EVERY)
    assert len(list(replay(running.log, STATUS.name))) == before
    running.undefine(METERS)
    eventually(lambda: running.store.by_topic(TOPIC) is None)
    report.step(3 * EVERY)
    assert told(running) == {key: None}


def test_another_process_forgets_tables_that_were_dropped_meanwhile(running: Running) -> None:
    running.send("m1", row(0))
    flush(running)
    StoredReport(running.log, running.catalog, running.store, "a").step(0.0)
    running.undefine(METERS)
    running.restart()
    StoredReport(running.log, running.catalog, running.store, "b").step(0.0)
    assert list(told(running).values()) != [None], "it is not this store's"
    StoredReport(running.log, running.catalog, running.store, "a").step(0.0)
    assert list(told(running).values()) == [None]


def test_a_store_keeps_its_name(tmp_path: Path) -> None:
    name = store_id(tmp_path / "data" / "tables.id")
    assert name == store_id(tmp_path / "data" / "tables.id") != store_id(tmp_path / "other.id")


@pytest.mark.parametrize("trimmed", [True, False])
def test_files_that_are_gone_are_an_error_once_the_log_has_forgotten_rows(
    running: Running, trimmed: bool
) -> None:
    running.send("m1", row(0))
    flush(running)
    StoredReport(running.log, running.catalog, running.store, "a").step(0.0)
    running.send("m1", row(1))
    running.wait()
    running.stop()
    if trimmed:
        running.log.trim({TOPIC: {p: 1 for p, end in running.log.end_offsets(TOPIC).items() if end}})
    shutil.rmtree(running.folder / str(METERS.uid))
    running.start()
    if not trimmed:
        assert sorted(ts for _, ts in running.rows()) == [0, 1]
        return
    assert "they are missing" in running.store.unusable()[TOPIC]
    running.stop()
    (running.folder / str(METERS.uid)).mkdir()
    running.start()
    assert sorted(ts for _, ts in running.rows()) == [1]


def test_rows_older_than_keep_leave(running: Running) -> None:
    running.define(Database("power", keep=10 * 1440))
    for day in range(0, 20, 2):
        running.send("m1", row(day * DAY))
        running.send(None, row(day * DAY), PLAIN)
        if day == 12:
            flush(running)
    running.wait()
    flusher = Flusher(running.store, now=lambda: 20 * DAY * 1_000_000)
    assert flusher._expire() and flusher._expire(), "one table at a time"
    for tables in (METERS, PLAIN):
        assert sorted(ts // DAY for _, ts in running.rows(tables)) == [10, 12, 14, 16, 18]
    flusher._now = lambda: 25 * DAY * 1_000_000
    assert not flusher._expire()
    assert len(running.rows()) == 5, "looked at a moment ago"
    for stored in running.store.tables():
        stored._expire_at = 0.0
    assert flusher._expire() and flusher._expire()
    assert sorted(ts // DAY for _, ts in running.rows()) == [16, 18]
    running.send("m1", row(3 * DAY))
    running.send("m1", row(17 * DAY, 7))
    flush(running)
    for stored in running.store.tables():
        stored._expire_at = 0.0
    assert flusher._expire() and flusher._expire()
    running.restart()
    assert sorted(ts // DAY for _, ts in running.rows()) == [16, 17, 18]


def test_rows_that_memory_has_let_go_leave_too(running: Running) -> None:
    running.define(Database("power", keep=1440))
    for hour in range(48):
        running.send("m1", row(hour * DAY // 24))
    running.wait()
    stored = running.store.table(METERS)
    stored.evict_half()
    stored.expire(1440, 2 * DAY * 1_000_000)
    assert sorted(ts * 24 // DAY for _, ts in running.rows()) == list(range(24, 48))
    assert stored.delta.statistics()[0][0] == DAY


def test_files_of_rows_older_than_keep_leave_the_disk_though_nothing_is_written_any_more(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.define(Database("power", keep=1440))
    running.send("m1", row(0))
    flush(running)
    running.send("m1", row(2 * DAY))
    flush(running)
    stored = running.store.table(METERS)

    def look() -> int:
        stored._expire_at = 0.0
        assert stored.expire(1440, 2 * DAY * 1_000_000)
        return len(list(stored.delta.path.glob("*.parquet")))

    assert look() == 2, "a query may still read them"
    monkeypatch.setattr(stored.delta, "_keep_seconds", 0.0)
    assert look() == 1
    assert [ts for _, ts in running.rows()] == [2 * DAY]


def test_files_that_are_put_together_go_after_a_while(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "COMPACT_FILES", 3)
    stored = running.store.table(METERS)
    for ts in range(3):
        running.send("m1", row(ts))
        running.wait()
        stored.flush()
    files = set(stored.delta.path.glob("*.parquet"))
    stored.maintain()
    assert files < set(stored.delta.path.glob("*.parquet")), "a query may still read them"
    stored.delta.vacuum(time.monotonic() + delta.KEEP_SECONDS - 1)
    assert files < set(stored.delta.path.glob("*.parquet"))
    stored.delta.vacuum(time.monotonic() + delta.KEEP_SECONDS + 1)
    assert len(list(stored.delta.path.glob("*.parquet"))) == 1
    assert sorted(ts for _, ts in running.rows()) == [0, 1, 2]


@pytest.mark.parametrize("older", [False, True])
def test_the_log_forgets_files_that_are_gone(
    running: Running, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    """They would be in every checkpoint for a week. ``older``: the table is from before this was so."""
    monkeypatch.setattr(delta, "COMPACT_FILES", 2)
    stored = running.store.table(METERS)
    monkeypatch.setattr(stored.delta, "_keep_seconds", 0.0)
    with monkeypatch.context() as patched:
        if older:
            patched.setattr(stored.delta, "_properties", lambda: {"delta.checkpointInterval": "20"})
        running.send("m1", row(0))
        running.wait()
        stored.flush()
    for ts in range(1, 40):
        running.send("m1", row(ts))
        running.wait()
        stored.flush()
        with monkeypatch.context() as patched:
            patched.setattr(stored.delta, "vacuum", lambda now: None)
            stored.maintain()
    last = max(stored.delta.path.glob("_delta_log/*.checkpoint.parquet"))
    assert len(pl.read_parquet(last).filter(pl.col("remove").is_not_null())) < 5
    assert sorted(ts for _, ts in running.rows()) == list(range(40))
    # and yet they leave the disk, though nobody looked before the log had forgotten them
    stored.delta._dead = {}
    stored.delta.vacuum(time.monotonic())
    stored.delta.vacuum(time.monotonic() + 1)
    delta_table = stored.delta.open()
    assert delta_table is not None
    assert len(list(stored.delta.path.glob("*.parquet"))) == len(delta_table.file_uris())


def test_files_that_the_table_does_not_have_any_more_go_though_none_are_put_together(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With KEEP each file goes sooner or later, and few files never make enough to be put together."""
    monkeypatch.setattr(delta, "LOOK_SECONDS", 0.0)
    running.define(Database("power", keep=1440))
    stored = running.store.table(METERS)
    monkeypatch.setattr(stored.delta, "_keep_seconds", 0.0)
    for ts in (0, 3 * DAY):
        running.send("m1", row(ts))
        running.wait()
        stored.flush()
    assert stored.expire(1440, 3 * DAY * 1_000_000)
    stored.maintain()
    assert len(list(stored.delta.path.glob("*.parquet"))) == 1
    assert [ts for _, ts in running.rows()] == [3 * DAY]
