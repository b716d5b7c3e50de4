"""The examples of IoTDB's guide to triggers: which tablet goes to whom, and what a failure of each stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.unit.gateway.conftest import NOW, Acknowledger, Calc, Rig, gateway_on

from api_gateway.insert_triggers import follower
from api_gateway.iotdb.reply import Done
from api_gateway.session import Session
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_wal import MemoryLog

CLASSES = """
    import json

    class Tells:
        def on_create(self, attributes):
            self.attributes = attributes
        def failure_strategy(self):
            return self.attributes.get("strategy", "OPTIMISTIC")
        def fire(self, tablet):
            with open(self.attributes["file"], "a") as file:
                told = {name: tablet.values(name).tolist() for name in tablet.measurements}
                line = [self.attributes["me"], tablet.device, tablet.times.tolist(), told]
                file.write(json.dumps(line) + chr(10))
            return "fails" not in self.attributes
"""


class Guide:
    def __init__(self, folder: Path) -> None:
        self.told_in = folder / "told"
        (folder / "triggers").mkdir()
        (folder / "triggers" / "guide.py").write_text(dedent(CLASSES))
        log, calc = MemoryLog(), Calc()
        gateway = gateway_on(log, calc, data_dir=folder, trigger_call_seconds=5, trigger_wait_seconds=20)
        gateway.start()
        acknowledger = Acknowledger(log)
        acknowledger.start()
        self.rig = Rig(log, calc, acknowledger, gateway)

    def __call__(self, sql: str) -> Any:
        return self.rig.gateway.iotdb.execute(Session("root", None, "UTC", NOW), sql)

    def trigger(self, name: str, event: str, pattern: str, **more: str) -> None:
        attributes = {"me": name, "file": str(self.told_in), **more}
        clause = ", ".join(f'"{key}" = "{value}"' for key, value in attributes.items())
        self(f"CREATE STATELESS TRIGGER {name} {event} INSERT ON {pattern} AS 'guide:Tells' WITH ({clause})")

    def told(self) -> list[Any]:
        if not self.told_in.exists():
            return []
        return sorted(json.loads(line) for line in self.told_in.read_text().splitlines())

    def stored(self) -> int:
        return sum(key == b"root.sg" and value[:1] == b"{" and b"time" in value
                   for key, value in self.rig.values("wal.root-2esg.devices"))  # fmt: skip


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guide]:
    monkeypatch.setattr(follower, "POLL_SECONDS", 0.02)
    made = Guide(tmp_path)
    made("CREATE DATABASE root.sg")
    yield made
    made.rig.gateway.stop()
    made.rig.trigger.stop()


@pytest.mark.parametrize("event", ["BEFORE", "AFTER"])
def test_each_trigger_gets_one_tablet_of_the_series_that_it_listens_to(guide: Guide, event: str) -> None:
    for name, pattern in (("Trigger1", "root.sg.*"), ("Trigger2", "root.sg.a"), ("Trigger3", "root.sg.b")):
        guide.trigger(name, event, pattern)
    guide("insert into root.sg(time, a, b) values (1, 1, 1)")
    assert guide.told() == [
        ["Trigger1", "root.sg", [1], {"a": [1.0], "b": [1.0]}],
        ["Trigger2", "root.sg", [1], {"a": [1.0]}],
        ["Trigger3", "root.sg", [1], {"b": [1.0]}],
    ]


@pytest.mark.parametrize(
    ("failing", "code", "stored", "fired"),
    [
        ("", None, 1, {"Trigger1", "Trigger2", "Trigger3", "Trigger4"}),
        ("Trigger1", None, 1, {"Trigger1", "Trigger2", "Trigger3", "Trigger4"}),
        ("Trigger2", Status.TRIGGER_FIRE_ERROR, 0, {"Trigger1", "Trigger2"}),
        ("Trigger3", None, 1, {"Trigger1", "Trigger2", "Trigger3", "Trigger4"}),
    ],
)
def test_the_pipeline_of_four(
    guide: Guide, failing: str, code: Status | None, stored: int, fired: set[str]
) -> None:
    for name, event, strategy in (
        ("Trigger1", "BEFORE", "OPTIMISTIC"), ("Trigger2", "BEFORE", "PESSIMISTIC"),
        ("Trigger3", "AFTER", "OPTIMISTIC"), ("Trigger4", "AFTER", "PESSIMISTIC"),
    ):  # fmt: skip
        guide.trigger(
            name, event, "root.sg.**", strategy=strategy, **({"fails": "1"} if name == failing else {})
        )
    if code is None:
        found = guide("insert into root.sg(time, a, b) values (1, 1, 1)")
        assert isinstance(found, Done)
        assert (failing in found.hint) if failing else not found.hint
    else:
        with pytest.raises(IotdbError) as caught:
            guide("insert into root.sg(time, a, b) values (1, 1, 1)")
        assert caught.value.status is code
    assert guide.stored() == stored
    assert {told[0] for told in guide.told()} == fired


def test_the_statement_of_the_guide_needs_a_hash_for_code_from_elsewhere(guide: Guide) -> None:
    with pytest.raises(IotdbError) as caught:
        guide("""CREATE STATELESS TRIGGER triggerTest
            BEFORE INSERT
            ON root.sg.**
            AS 'org.apache.iotdb.trigger.ClusterAlertingExample'
            USING URI 'http://jar/ClusterAlertingExample.jar'
            WITH (
                "name" = "trigger",
                "limit" = "100"
            )""")
    assert caught.value.status in (Status.CREATE_TRIGGER_ERROR, Status.TRIGGER_LOAD_CLASS_ERROR)
    assert guide("SHOW TRIGGERS").rows == []


def test_names_of_triggers_are_case_sensitive_and_what_is_there_stays_unseen(guide: Guide) -> None:
    guide("insert into root.sg(time, a) values (1, 1)")
    guide.trigger("triggerTest1", "AFTER", "root.**")
    guide.trigger("TRIGGERTEST1", "AFTER", "root.**")
    guide("insert into root.sg(time, a) values (2, 2)")
    assert [told[:3] for told in guide.told()] == [
        ["TRIGGERTEST1", "root.sg", [2]], ["triggerTest1", "root.sg", [2]],
    ]  # fmt: skip
    guide("DROP TRIGGER triggerTest1")
    assert [row[0] for row in guide("SHOW TRIGGERS").rows] == ["TRIGGERTEST1"]
