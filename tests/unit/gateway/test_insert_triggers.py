"""IoTDB's triggers on a gateway with a log in memory; their classes run in processes of their own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest
from tests.unit.gateway.conftest import NOW, Acknowledger, Calc, Rig, gateway_on

import conformance_triggers
from api_gateway.insert_triggers import follower
from api_gateway.insert_triggers.registry import InsertTriggers
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.session import Session
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.wire.rows.decoder import encode_rows
from millrace_wal import MemoryLog, Message

TOPIC = "wal.root-2ep.devices"
CLASSES = """
    import os, time, signal

    class Seen:
        '''Counts tablets and rows, keeps both, tells them at each firing.'''
        def on_create(self, attributes):
            self.into = attributes.get("into", "root.p.seen.n")
            self.rows = 0
        def state(self):
            return {"rows": self.rows}
        def restore(self, state):
            self.rows = state["rows"] if state else 0
        def fire(self, tablet):
            self.rows += len(tablet)
            tablet.write(self.into, tablet.times[-1], self.rows)

    class Bad(Seen):
        '''Does by value what a class must not do: 1 ends the process, 2 loops, 3 takes all memory.'''
        def fire(self, tablet):
            what = tablet.values("v")[0]
            if what == 1:
                os._exit(3)
            if what == 2:
                while True:
                    pass
            if what == 3:
                bytearray(4 << 30)
            super().fire(tablet)

    class Hoards(Seen):
        '''Leaks 40 MB with each tablet.'''
        def fire(self, tablet):
            self.hoard = (getattr(self, "hoard", None), bytearray(40 << 20))
            super().fire(tablet)

    class Loop:
        def fire(self, tablet):
            for time, row in tablet.rows():
                tablet.write("root.p.loop.v", time + 1, row["v"] + 1)

    class Falsy:
        def on_create(self, attributes):
            self.strategy = attributes.get("strategy", "OPTIMISTIC")
        def failure_strategy(self):
            return self.strategy
        def fire(self, tablet):
            return False

    class Picky:
        def validate(self, attributes):
            raise ValueError("no attribute will do")

    class Drops:
        def on_create(self, attributes):
            self.file = attributes["file"]
        def on_drop(self):
            with open(self.file, "a") as file:
                file.write("dropped ")
            raise RuntimeError("and failed")
"""


class Iotdb:
    """A gateway with a folder of classes."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig, self.folder = rig, folder

    def __call__(self, sql: str) -> Any:
        return self.rig.gateway.iotdb.execute(Session("root", None, "UTC", NOW), sql)

    def refused(self, sql: str) -> IotdbError:
        with pytest.raises(IotdbError) as caught:
            self(sql)
        return caught.value

    def trigger(
        self, kind: str, name: str = "t", event: str = "AFTER", on: str = "root.p.d.v",
        how: str = "STATEFUL", **more: str,
    ) -> None:  # fmt: skip
        attributes = ", ".join(f'"{key}" = "{value}"' for key, value in more.items())
        clause = f"WITH ({attributes})" if more else ""
        self(f"CREATE {how} TRIGGER {name} {event} INSERT ON {on} AS '{kind}' {clause}")

    def insert(self, time: int, value: object, device: str = "root.p.d") -> Done:
        found = self(f"INSERT INTO {device}(time, v) VALUES ({time}, {value})")
        assert isinstance(found, Done)
        return found

    def rows(self, device: str) -> list[dict[str, Any]]:
        """All rows of a device in the log, in order, repeated ones too."""
        import json

        found: list[dict[str, Any]] = []
        for key, value in self.rig.values(TOPIC):
            if key.decode() == device and value[:1] in (b"{", b"["):
                told = json.loads(value)
                found += told if isinstance(told, list) else [told]
        return found

    def values(self, device: str, column: str = "v") -> list[Any]:
        return [row[column] for row in self.rows(device)]

    @property
    def triggers(self) -> InsertTriggers:
        found = self.rig.gateway.context.listener
        assert isinstance(found, InsertTriggers)
        return found

    def pid(self, name: str = "t") -> int:
        process = self.triggers._lives[name].instance._process
        assert process is not None
        return process.pid

    def restart(self) -> None:
        self.rig.restart(data_dir=self.folder.parent, trigger_call_seconds=2, trigger_wait_seconds=20)


@pytest.fixture
def iotdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Iotdb]:
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.02)
    folder = tmp_path / "triggers"
    folder.mkdir()
    (folder / "classes.py").write_text(dedent(CLASSES))
    (folder / "conformance_triggers").symlink_to(Path(conformance_triggers.__file__).parent)
    log, calc = MemoryLog(), Calc()
    gateway = gateway_on(log, calc, data_dir=tmp_path, trigger_call_seconds=2, trigger_wait_seconds=20)
    gateway.start()
    acknowledger = Acknowledger(log)
    acknowledger.start()
    found = Iotdb(Rig(log, calc, acknowledger, gateway), folder)
    found("CREATE DATABASE root.p")
    yield found
    found.rig.gateway.stop()
    acknowledger.stop()


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- AFTER ---------------------------------------------------------------------------------------------------


def test_after_a_write_its_trigger_has_fired_and_has_written(iotdb: Iotdb) -> None:
    iotdb.insert(0, 500)
    iotdb.trigger("classes:Seen")
    assert iotdb.insert(1, 1.5).hint == ""
    assert iotdb.values("root.p.seen", "n") == [1]
    iotdb("INSERT INTO root.p.d(time, v, w) VALUES (2, 1, 1), (3, 2, 2)")
    iotdb("INSERT INTO root.p.d(time, w) VALUES (4, 1)")
    iotdb.insert(5, 1, "root.p.other")
    assert iotdb.values("root.p.seen", "n") == [1, 3]


def test_rows_of_producers_fire_it_too(iotdb: Iotdb) -> None:
    iotdb.insert(0, 0)
    iotdb.trigger("classes:Seen")
    iotdb.rig.log.append(
        [Message(TOPIC, b"root.p.d", encode_rows([{"time": 1, "v": 1.0}, {"time": 2, "v": 2.0}]))]
    )
    until(lambda: iotdb.values("root.p.seen", "n") == [2])


def test_a_stateful_trigger_goes_on_after_a_restart_and_has_seen_each_row_once(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Seen")
    for time_ in range(5):
        iotdb.insert(time_, 1)
    iotdb.restart()
    iotdb.insert(9, 1)
    assert iotdb.values("root.p.seen", "n")[-1] == 6


def test_what_was_written_while_the_gateway_was_away_is_fired_later(iotdb: Iotdb) -> None:
    iotdb.insert(0, 0)
    iotdb.trigger("classes:Seen")
    log: MemoryLog = iotdb.rig.log
    iotdb.rig.gateway.stop()
    log.append([Message(TOPIC, b"root.p.d", encode_rows([{"time": 1, "v": 1.0}]))])
    iotdb.rig.gateway = gateway_on(log, iotdb.rig.calc, data_dir=iotdb.folder.parent)
    iotdb.rig.gateway.start()
    until(lambda: iotdb.values("root.p.seen", "n") == [1])


@pytest.mark.parametrize(
    ("what", "said"), [(1, "exited with code 3"), (2, "longer than 2 s"), (3, "MemoryError")]
)
def test_a_class_that_misbehaves_fails_alone_and_goes_on(iotdb: Iotdb, what: int, said: str) -> None:
    iotdb.trigger("classes:Bad")
    iotdb.trigger("classes:Seen", "other", into="root.p.beside.n")
    iotdb.insert(1, 0)
    assert said in iotdb.insert(2, what).hint
    iotdb.insert(3, 0)
    assert iotdb.values("root.p.seen", "n") == [1, 2]  # what it kept has come back
    assert iotdb.values("root.p.beside", "n") == [1, 2, 3]
    assert iotdb.values("root.p.d") == [0, what, 0]


def test_a_leak_ends_its_process_and_costs_no_row(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Hoards")
    first = iotdb.pid()
    hints = [iotdb.insert(at, 1).hint for at in range(1, 13)]
    assert set(hints) == {""}
    assert iotdb.values("root.p.seen", "n") == list(range(1, 13))
    assert iotdb.pid() != first


def test_one_that_ends_its_process_costs_no_other_of_the_same_batch(iotdb: Iotdb) -> None:
    iotdb.insert(0, 0)
    iotdb.trigger("classes:Bad")
    rows = [{"time": at, "v": 1.0 if at == 3 else 0.0} for at in range(1, 7)]
    iotdb.rig.log.append([Message(TOPIC, b"root.p.d", encode_rows([row])) for row in rows])
    until(lambda: iotdb.values("root.p.seen", "n")[-1:] == [5])
    assert iotdb.triggers._lives["t"].failures == 1


def test_a_killed_process_is_started_again(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Seen")
    iotdb.insert(1, 1)
    process = psutil.Process(iotdb.pid())
    process.kill()
    iotdb.insert(2, 1)
    iotdb.insert(3, 1)
    assert iotdb.values("root.p.seen", "n")[-1] == 3


def test_a_pessimistic_failure_after_says_that_the_rows_are_stored(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Falsy", strategy="PESSIMISTIC")
    found = iotdb.refused("INSERT INTO root.p.d(time, v) VALUES (1, 1)")
    assert found.status is Status.TRIGGER_FIRE_ERROR
    assert "stored" in str(found)
    assert iotdb.values("root.p.d") == [1]


def test_triggers_that_fire_themselves_end_at_the_eighth(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Loop", on="root.p.loop.v", how="STATELESS")
    hint = iotdb.insert(0, 0, "root.p.loop").hint
    assert iotdb.values("root.p.loop") == list(range(9))
    assert "does t fire itself?" in hint


# -- BEFORE --------------------------------------------------------------------------------------------------


def test_before_a_refused_write_nothing_is_stored(iotdb: Iotdb) -> None:
    iotdb.trigger("conformance_triggers:Reject", event="BEFORE", min="0", strategy="PESSIMISTIC")
    iotdb.insert(1, 5)
    found = iotdb.refused("INSERT INTO root.p.d(time, v) VALUES (2, 3), (3, -1)")
    assert found.status is Status.TRIGGER_FIRE_ERROR
    assert "must be at least 0.0" in str(found)
    assert iotdb.values("root.p.d") == [5]
    iotdb.rig("INSERT INTO `root.p`.`root.p.d` (time, v) VALUES (4, 1)")
    with pytest.raises(IotdbError):  # the other dialect is no way around it
        iotdb.rig("INSERT INTO `root.p`.`root.p.d` (time, v) VALUES (5, -1)")
    assert iotdb.values("root.p.d") == [5, 1]


def test_optimistic_failures_are_counted_and_told(iotdb: Iotdb) -> None:
    iotdb.trigger("conformance_triggers:Reject", event="BEFORE", min="0", strategy="OPTIMISTIC")
    assert "must be at least 0.0" in iotdb.insert(1, -1).hint
    assert iotdb.values("root.p.d") == [-1]
    assert iotdb.triggers._lives["t"].failures == 1


def test_what_a_trigger_before_has_kept_is_there_after_a_crash(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Seen", event="BEFORE")
    iotdb.insert(1, 1)
    iotdb.insert(2, 1)
    abandoned = iotdb.rig.gateway
    iotdb.rig.gateway = gateway_on(iotdb.rig.log, iotdb.rig.calc, data_dir=iotdb.folder.parent)
    iotdb.rig.gateway.start()
    iotdb.insert(3, 1)
    assert iotdb.values("root.p.seen", "n") == [1, 2, 3]
    abandoned.stop()


# -- CREATE, DROP, SHOW --------------------------------------------------------------------------------------


def test_create_is_refused_with_its_cause(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Seen")
    cases = {
        "STATEFUL TRIGGER t BEFORE INSERT ON root.** AS 'classes:Seen'": (1300, "already"),
        "STATELESS TRIGGER u AFTER INSERT ON root.** AS 'classes:None_'": (1303, "no class None_"),
        "STATELESS TRIGGER u AFTER INSERT ON root.** AS 'nowhere:A'": (1303, "no module nowhere"),
        "STATELESS TRIGGER u AFTER INSERT ON root.** AS 'json.decoder:JSONDecoder'": (
            1303,
            "loaded only from there",
        ),
        "STATELESS TRIGGER u AFTER INSERT ON root.** AS 'classes:Picky'": (1300, "no attribute will do"),
        "STATELESS TRIGGER u AFTER INSERT ON root.** AS 'classes:Seen' USING URI 'none.py'": (
            1300,
            "no file",
        ),
    }
    for clause, (number, said) in cases.items():
        found = iotdb.refused(f"CREATE {clause}")
        assert (found.status.number, said in str(found)) == (number, True), str(found)
    shown = iotdb("SHOW TRIGGERS")
    assert isinstance(shown, Listing)
    assert shown.rows == [("t", "AFTER_INSERT", "STATEFUL", "ACTIVE", "root.p.d.v", "classes:Seen", "1")]


def test_drop_calls_on_drop_once_and_ends_the_process(iotdb: Iotdb) -> None:
    told = iotdb.folder / "told"
    iotdb.trigger("classes:Drops", how="STATELESS", file=str(told))
    pid = iotdb.pid()
    iotdb("DROP TRIGGER t")
    assert told.read_text() == "dropped "
    assert not psutil.pid_exists(pid)
    assert iotdb("SHOW TRIGGERS").rows == []
    assert iotdb.refused("DROP TRIGGER t").status is Status.DROP_TRIGGER_ERROR
    iotdb.restart()
    assert iotdb("SHOW TRIGGERS").rows == []


def test_on_drop_is_made_up_for_at_the_next_start(iotdb: Iotdb, monkeypatch: pytest.MonkeyPatch) -> None:
    told = iotdb.folder / "told"
    iotdb.trigger("classes:Drops", file=str(told))
    iotdb.insert(1, 1)
    with monkeypatch.context() as ended:
        ended.setattr(InsertTriggers, "_forget", lambda *_: None)  # the gateway has ended by then
        iotdb("DROP TRIGGER t")
    assert not told.exists()
    iotdb.restart()
    assert told.read_text() == "dropped "
    assert iotdb("SHOW TRIGGERS").rows == []
    iotdb.restart()
    assert told.read_text() == "dropped "


def test_one_made_again_under_its_name_begins_anew(iotdb: Iotdb) -> None:
    iotdb.trigger("classes:Seen")
    iotdb.insert(1, 1)
    iotdb("DROP TRIGGER t")
    iotdb.insert(2, 1)
    iotdb.trigger("classes:Seen")
    iotdb.insert(3, 1)
    assert iotdb.values("root.p.seen", "n") == [1, 1]


def test_code_from_elsewhere_needs_its_hash(iotdb: Iotdb, tmp_path: Path) -> None:
    source = tmp_path / "elsewhere.py"
    source.write_text("class There:\n    pass\n")
    sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    clause = f"CREATE STATELESS TRIGGER u BEFORE INSERT ON root.** AS 'elsewhere:There' USING URI 'file://{source}'"
    assert iotdb.refused(clause).status is Status.CREATE_TRIGGER_ERROR
    wrong = iotdb.refused(clause + f' WITH ("sha256" = "{"0" * 64}")')
    assert (wrong.status, sha256 in str(wrong)) == (Status.TRIGGER_DOWNLOAD_ERROR, True)
    iotdb(clause + f' WITH ("sha256" = "{sha256}")')
    assert len(iotdb("SHOW TRIGGERS").rows) == 1
    (iotdb.folder / "install" / sha256 / "elsewhere.py").write_text("raise SystemExit")
    iotdb.restart()
    assert "or its SHA-256 has changed" in iotdb.insert(1, 1).hint
