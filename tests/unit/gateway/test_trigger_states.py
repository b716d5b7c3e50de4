"""What SHOW TRIGGERS shows while a trigger is made, dropped, and in between (the guide's table of states)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent

import pytest
from tests.unit.gateway.test_insert_triggers import Iotdb, iotdb, until

from api_gateway.iotdb.reply import Listing
from millrace_core.dialect.iotdb.codes import Status

__all__ = ["iotdb"]
CLASSES = """
    import os, time

    class Waits:
        '''Is made and dropped once there is a file.'''
        def on_create(self, attributes):
            self._wait("made")
        def on_drop(self):
            self._wait("dropped")
        def _wait(self, name):
            while not os.path.exists(name):
                time.sleep(0.01)
        def fire(self, tablet):
            tablet.write("root.p.seen.n", tablet.times, [1] * len(tablet))
"""


@contextmanager
def beside(iotdb: Iotdb, sql: str) -> Iterator[None]:
    """The statement runs meanwhile, and has ended afterwards."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            iotdb(sql)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive() and not failures


def shown(iotdb: Iotdb) -> list[tuple[object, ...]]:
    found = iotdb("SHOW TRIGGERS")
    assert isinstance(found, Listing)
    assert found.names == (
        "TriggerName", "Event", "Type", "State", "PathPattern", "ClassName", "NodeId",
    )  # fmt: skip
    return found.rows


@pytest.mark.parametrize(("how", "node"), [("STATELESS", "ALL"), ("STATEFUL", "1")])
def test_the_states_of_a_trigger(iotdb: Iotdb, how: str, node: str) -> None:
    (iotdb.folder / "waits.py").write_text(dedent(CLASSES))

    def row(state: str) -> tuple[object, ...]:
        return "t", "AFTER_INSERT", how, state, "root.p.d.v", "waits:Waits", node

    create = f"CREATE {how} TRIGGER t AFTER INSERT ON root.p.d.v AS 'waits:Waits'"
    with beside(iotdb, create):
        until(lambda: shown(iotdb) == [row("INACTIVE")])
        assert iotdb.refused(create).status is Status.CREATE_TRIGGER_ERROR
        iotdb.insert(1, 1)
        (iotdb.folder / "made").touch()
    assert shown(iotdb) == [row("ACTIVE")]
    iotdb.insert(2, 1)
    with beside(iotdb, "DROP TRIGGER t"):
        until(lambda: shown(iotdb) == [row("DROPPING")])
        assert iotdb.refused("DROP TRIGGER t").status is Status.DROP_TRIGGER_ERROR
        (iotdb.folder / "dropped").touch()
    assert shown(iotdb) == []
    iotdb.insert(3, 1)
    assert [row["time"] for row in iotdb.rows("root.p.seen")] == [2]
