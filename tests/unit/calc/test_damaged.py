"""Files of a table that cannot be read: an error that names the table; all others go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from calc_svc.store import unusable
from calc_svc.store.delta import DeltaRows
from millrace_core.catalog import StreamEntry
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import Duration, Output, Source, StreamSpec
from millrace_core.problems import state_with, topics_of
from millrace_core.trigger.types import Interval
from millrace_core.wire import status
from millrace_core.wire.status import Applied
from millrace_core.wire.topics import STATUS, wal_topic
from millrace_wal import Message, replay

from .conftest import METERS, PLAIN, TOPIC, Running, eventually, row

NAME = f"{METERS.db}.{METERS.name}"


def log_of(running: Running) -> Path:
    return running.folder / str(METERS.uid) / "_delta_log"


def flushed(running: Running) -> None:
    """Both tables have rows in files, in a commit each."""
    for ts in range(3):
        running.send("m1", row(ts))
        running.send(None, row(ts), PLAIN)
        running.wait()
        for stored in running.store.tables():
            stored.flush()


def torn_last(folder: Path) -> None:
    last = sorted(folder.glob("*.json"))[-1]
    last.write_text(last.read_text()[:20])


def garbage(folder: Path) -> None:
    sorted(folder.glob("*.json"))[1].write_text("garbage")


def gap(folder: Path) -> None:
    sorted(folder.glob("*.json"))[1].unlink()


def no_log(folder: Path) -> None:
    shutil.rmtree(folder)


def empty_rows(folder: Path) -> None:
    for path in folder.parent.glob("*.parquet"):
        path.write_bytes(b"")


def rows_gone(folder: Path) -> None:
    for path in folder.parent.glob("*.parquet"):
        path.unlink()


def problems(running: Running) -> dict[bytes, str | None]:
    found: dict[bytes, str | None] = {}
    for record in replay(running.log, STATUS.name):
        if not (record.key or b"").startswith(b"problem/"):
            continue
        news = None if record.value is None else status.decode(record.value)
        if news is not None and not isinstance(news, status.Problem):
            continue
        found[record.key or b""] = None if news is None else news.message
    return found


@pytest.mark.parametrize("damage", [torn_last, garbage, gap, no_log, empty_rows, rows_gone])
def test_damaged_files_are_an_error_of_their_table_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch, damage: Any
) -> None:
    monkeypatch.setattr(unusable, "AGAIN", 0.05)
    flushed(running)
    running.stop()
    copy = shutil.copytree(log_of(running).parent, running.folder.parent / "copy")
    damage(log_of(running))
    running.start()
    running.send(None, row(7), PLAIN)
    plain = wal_topic(PLAIN.db, PLAIN.name)
    running.store.wait(0, {plain: running.log.end_offsets(plain)}, 10)
    assert len(running.store.table(PLAIN).view().slices.within(0, 9)[0]) == 4

    for asked in (lambda: running.store.table(METERS), lambda: running.store.wait(0, {TOPIC: {0: 1}}, 60)):
        with pytest.raises(
            MillraceError, match=f"the files of table {NAME} are damaged: .*restore the folder"
        ) as caught:
            asked()
        assert caught.value.code is ErrorCode.DAMAGED
    (key,) = running.store.unusable()
    assert key == TOPIC
    ((told, message),) = problems(running).items()
    assert told.decode() == f"problem/calc-svc/table/{TOPIC}" and NAME in str(message)

    shutil.rmtree(log_of(running).parent)
    shutil.copytree(copy, log_of(running).parent)
    eventually(lambda: not running.store.unusable())
    assert sorted(running.rows()) == [("m1", ts) for ts in range(3)]
    assert problems(running) == {told: None}


def test_a_table_that_is_made_while_somebody_opens_it_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chaos, seed 1: a recalculation read the table while its first rows were flushed."""
    rows = DeltaRows(tmp_path / "table", METERS)
    is_table = DeltaTable.is_deltatable

    def made_meanwhile(uri: str) -> bool:
        found = is_table(uri)
        monkeypatch.setattr(DeltaTable, "is_deltatable", staticmethod(is_table))
        rows._create()
        return found

    monkeypatch.setattr(DeltaTable, "is_deltatable", staticmethod(made_meanwhile))
    assert rows.open() is None
    assert rows.open() is not None


def test_an_emptied_folder_goes_on_with_what_the_log_has(running: Running) -> None:
    flushed(running)
    running.stop()
    garbage(log_of(running))
    running.start()
    assert running.store.unusable()
    running.stop()
    shutil.rmtree(log_of(running).parent)
    log_of(running).parent.mkdir()
    running.start()
    assert sorted(running.rows()) == [("m1", ts) for ts in range(3)]
    assert not running.store.unusable()


def test_a_damaged_table_can_be_dropped(running: Running) -> None:
    flushed(running)
    running.stop()
    garbage(log_of(running))
    running.start()
    running.undefine(METERS)
    eventually(lambda: not running.store.unusable())
    eventually(lambda: not log_of(running).parent.exists())
    eventually(lambda: list(problems(running).values()) == [None])


def entry(source: object, query: str = "", wanted: str = "Running") -> StreamEntry:
    interval = Interval(Duration(1, "s"), Duration(1, "s"))
    spec = StreamSpec(
        9, "power", "s", "", interval, Source(source), query=query or None,  # type: ignore[arg-type]
        database="power", output=Output("power", "results"),
    )  # fmt: skip
    return StreamEntry(spec, wanted, 0, 3)


def test_the_streams_that_need_a_damaged_table_are_failed_and_say_why(running: Running) -> None:
    flushed(running)
    running.stop()
    garbage(log_of(running))
    running.define(entry(METERS))  # type: ignore[arg-type]
    running.log.append([Message(STATUS.name, b"applied", status.encode(Applied(5)))])
    running.start()
    eventually(lambda: bool(running.catalog.stream_statuses()))
    ((state, message),) = running.catalog.stream_statuses().values()
    assert state == "Failed" and NAME in message
    assert NAME in running.catalog.waits(9)
    problem = status.Problem("calc-svc", "x", "away", (TOPIC,))
    catalog = running.catalog.catalog
    of = {
        "by trigger": entry(METERS), "by query": entry(PLAIN, "select * from meters"),
        "not": entry(PLAIN, "select * from log"), "stopped": entry(METERS, wanted="Stopped"),
    }  # fmt: skip
    found = {how: state_with(one, catalog, [problem], ("Running", ""))[0] for how, one in of.items()}
    assert found == {"by trigger": "Failed", "by query": "Failed", "not": "Running", "stopped": "Running"}
    assert topics_of(entry(PLAIN), catalog) == {wal_topic("power", "log"), wal_topic("power", "results")}


def test_what_was_lost_is_told_until_the_stream_is_started_anew(running: Running) -> None:
    lost = status.Problem("calc-svc", "gap/x/0", "offsets 3 to 5 are gone", streams=(9,), control=3)
    before, behind = entry(METERS), StreamEntry(entry(METERS).spec, "Running", 1, 4)
    found = [state_with(one, running.catalog.catalog, [lost], ("Running", "")) for one in (before, behind)]
    assert found == [("Running", "offsets 3 to 5 are gone"), ("Running", "")]
