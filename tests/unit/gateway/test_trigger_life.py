"""How a trigger of IoTDB lives: which methods of its class are called, when, and what its tablets are."""

from __future__ import annotations

import json
import os
import signal
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.gateway.conftest import gateway_on
from tests.unit.gateway.iotdb_door import Door
from tests.unit.gateway.test_insert_triggers import Iotdb, iotdb, until

from api_gateway.iotdb.write import Tablet
from api_gateway.session import Session
from millrace_core.dialect.iotdb.codes import IotdbError, Status

__all__ = ["iotdb"]
CLASSES = """
    import json

    class Tells:
        '''Writes each call into a file.'''
        def _tell(self, *what):
            with open(self.file, "a") as file:
                file.write(json.dumps(what) + chr(10))
        def validate(self, attributes):
            self.file = attributes["file"]
            self._tell("validate", sorted(attributes))
        def on_create(self, attributes):
            self.file = attributes["file"]
            self._tell("on_create")
            if "fails" in attributes:
                raise RuntimeError("it is not to be")
        def on_drop(self):
            self._tell("on_drop")
        def state(self):
            return "kept"
        def restore(self, state):
            self._tell("restore", state)
        def failure_strategy(self):
            return "PESSIMISTIC"
        def fire(self, tablet):
            self._tell("fire", tablet.device, tablet.times.tolist())
            for array in (tablet.times, tablet.values("v"), tablet.present("v")):
                try:
                    array[0] = 7
                except ValueError:
                    continue
                raise AssertionError("a tablet can be changed")
            if tablet.values("v")[0] < 0:
                raise ValueError("too low")
"""


@pytest.fixture
def told(iotdb: Iotdb) -> Any:
    (iotdb.folder / "telling.py").write_text(dedent(CLASSES))
    file = iotdb.folder / "told"

    def read() -> list[Any]:
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    read.file = str(file)  # type: ignore[attr-defined]
    return read


@pytest.mark.parametrize("how", ["STATEFUL", "STATELESS"])
def test_from_create_to_drop(iotdb: Iotdb, told: Any, how: str) -> None:
    iotdb.trigger("telling:Tells", event="BEFORE", how=how, file=told.file)
    assert told() == [["validate", ["file"]], ["on_create"]]
    iotdb("INSERT INTO root.p.d(time, v) VALUES (1, 1), (2, 2)")
    assert told() == [["fire", "root.p.d", [1, 2]]]
    iotdb.restart()
    iotdb.insert(3, 3)
    again = [["restore", "kept"]] if how == "STATEFUL" else []
    assert told() == [["on_create"], *again, ["fire", "root.p.d", [3]]]
    iotdb("DROP TRIGGER t")
    assert told() == [["on_drop"]]
    iotdb.insert(4, 4)
    assert told() == []


def test_what_on_create_refuses_is_not_registered(iotdb: Iotdb, told: Any) -> None:
    found = iotdb.refused(
        "CREATE STATEFUL TRIGGER t AFTER INSERT ON root.** AS 'telling:Tells' "
        f'WITH ("file" = "{told.file}", "fails" = "")'
    )
    assert (found.status, "it is not to be" in str(found)) == (Status.CREATE_TRIGGER_ERROR, True)
    assert iotdb("SHOW TRIGGERS").rows == []
    iotdb.insert(1, 1)
    assert [call for call, *_ in told()] == ["validate", "on_create"]
    iotdb.trigger("telling:Tells", file=told.file)  # the name is free


def test_rows_of_several_devices_are_stored_all_or_not_at_all(iotdb: Iotdb, told: Any) -> None:
    iotdb.trigger("telling:Tells", event="BEFORE", on="root.p.*.v", file=told.file)
    rows = [
        Tablet(("root", "p", name), [1], {"v": [value]}, {"v": "DOUBLE"})
        for name, value in (("d", 1.0), ("e", -1.0), ("f", 2.0))
    ]
    session = Session("root", None, "UTC", 0)
    with pytest.raises(IotdbError, match=r"nothing is stored: .*too low") as caught:
        iotdb.rig.gateway.iotdb.write(session, rows)
    assert caught.value.status is Status.TRIGGER_FIRE_ERROR
    assert [iotdb.values(f"root.p.{name}") for name in "def"] == [[], [], []]
    iotdb.rig.gateway.iotdb.write(session, [rows[0], rows[2]])
    assert [iotdb.values(f"root.p.{name}") for name in "def"] == [[1.0], [], [2.0]]
    fired = [call[1] for call in told() if call[0] == "fire"]
    assert fired[-2:] == ["root.p.d", "root.p.f"], "a tablet of each device"


def test_a_class_that_is_gone_is_looked_for_as_often_as_the_settings_say(iotdb: Iotdb, told: Any) -> None:
    iotdb.trigger("telling:Tells", event="BEFORE", file=told.file)
    file = iotdb.folder / "telling.py"
    text = file.read_text()
    file.unlink()
    iotdb.restart()
    found = iotdb.refused("INSERT INTO root.p.d(time, v) VALUES (1, 1)")
    assert (found.status, "cannot be started" in str(found)) == (Status.TRIGGER_FIRE_ERROR, True), str(found)
    assert iotdb.triggers._lives["t"].instance.starts == iotdb.rig.gateway.context.settings.trigger_tries == 3
    file.write_text(text)
    iotdb.insert(2, 2)
    assert told()[-1] == ["fire", "root.p.d", [2]]


@pytest.mark.parametrize("event", ["BEFORE", "AFTER"])
def test_select_into_tells_what_triggers_have_failed_at(iotdb: Iotdb, event: str) -> None:
    iotdb.insert(1, 1, "root.p.e")
    iotdb.trigger("classes:Falsy", event=event, how="STATELESS")
    iotdb.rig.calc.answers(
        ("tbname", "VARCHAR(192)", pa.array(["root.p.e"])), ("time", "TIMESTAMP", pa.array([1], pa.int64())),
        ("v", "DOUBLE", pa.array([7.0])),
    )  # fmt: skip
    statement = "SELECT v INTO root.p.d(v) FROM root.p.e"
    assert "the trigger t failed" in iotdb(statement).hint
    door = Door(iotdb.rig)
    found = door.do(statement)
    assert (found["code"], "the trigger t failed" in found["message"]) == (200, True)
    assert iotdb.values("root.p.d") == [7, 7]


GUARD = """
    import os

    class Guard:
        def failure_strategy(self):
            return "PESSIMISTIC"
        def fire(self, tablet):
            what = tablet.values("v")[0]
            if what == -2:
                os._exit(3)
            if what == -3:
                while True:
                    pass
            if what == -4:
                bytearray(4 << 30)
            return what >= 0
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [(-1, "False"), (-2, "exited with code 3"), (-3, "longer than 2 s"), (-4, "MemoryError")],
)
def test_whatever_refuses_before_nothing_is_stored(iotdb: Iotdb, what: int, said: str) -> None:
    (iotdb.folder / "guard.py").write_text(dedent(GUARD))
    iotdb.trigger("guard:Guard", event="BEFORE", how="STATELESS")
    iotdb.insert(1, 1)
    found = iotdb.refused(f"INSERT INTO root.p.d(time, v) VALUES (2, {what})")
    assert (found.status, said in str(found)) == (Status.TRIGGER_FIRE_ERROR, True), str(found)
    iotdb.insert(3, 3)
    assert iotdb.values("root.p.d") == [1, 3]


def test_a_guard_that_is_killed_lets_nothing_through(iotdb: Iotdb) -> None:
    """Its process by kill -9, and the gateway, after which another one goes on with the log."""
    (iotdb.folder / "guard.py").write_text(dedent(GUARD))
    iotdb.trigger("guard:Guard", event="BEFORE", how="STATELESS")
    for at in range(1, 20):
        if at % 4 == 0:
            os.kill(iotdb.pid(), signal.SIGKILL)
        if at % 7 == 0:
            abandoned = iotdb.rig.gateway
            iotdb.rig.gateway = gateway_on(iotdb.rig.log, iotdb.rig.calc, data_dir=iotdb.folder.parent)
            iotdb.rig.gateway.start()
            iotdb.insert(at, at)  # the first write starts its process
            abandoned.stop()
        if at % 2:
            iotdb.insert(at, at)
        else:
            iotdb.refused(f"INSERT INTO root.p.d(time, v) VALUES ({at}, -1)")
    assert set(iotdb.values("root.p.d")) == {*range(1, 20, 2), 14}


def test_a_process_that_ends_after_the_write_says_that_the_rows_are_stored(iotdb: Iotdb) -> None:
    (iotdb.folder / "guard.py").write_text(dedent(GUARD))
    iotdb.trigger("guard:Guard", how="STATELESS")
    found = iotdb.refused("INSERT INTO root.p.d(time, v) VALUES (1, -2)")
    assert (found.status, "the rows are stored, but" in str(found)) == (Status.TRIGGER_FIRE_ERROR, True)
    assert iotdb.values("root.p.d") == [-2]


@pytest.mark.parametrize("strategy", ["OPTIMISTIC", "PESSIMISTIC"])
def test_a_request_waits_for_a_slow_trigger_as_its_strategy_says(iotdb: Iotdb, strategy: str) -> None:
    (iotdb.folder / "slow.py").write_text(dedent(SLOW))
    iotdb.trigger("slow:Slow", how="STATELESS", strategy=strategy)
    iotdb.rig.restart(data_dir=iotdb.folder.parent, trigger_call_seconds=60, trigger_wait_seconds=0.2)
    said = "it has not fired for the rows within 0.2 s; it will keep trying"
    if strategy == "OPTIMISTIC":
        assert said in iotdb.insert(1, 1).hint
    else:
        found = iotdb.refused("INSERT INTO root.p.d(time, v) VALUES (1, 1)")
        assert (found.status, said in str(found)) == (Status.TRIGGER_FIRE_ERROR, True), str(found)
    assert iotdb.values("root.p.d") == [1]
    (iotdb.folder / "go").touch()
    until(lambda: iotdb.values("root.p.late", "n") == [1])


SLOW = """
    import os, time

    class Slow:
        '''Fires once there is a file.'''
        def on_create(self, attributes):
            self.strategy = attributes["strategy"]
        def failure_strategy(self):
            return self.strategy
        def fire(self, tablet):
            while not os.path.exists("go"):
                time.sleep(0.01)
            tablet.write("root.p.late.n", 1, 1)
"""
