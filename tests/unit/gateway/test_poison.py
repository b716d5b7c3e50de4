"""Poison in every topic that the gateway reads: a dead letter for each registration, nothing else changes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from api_gateway.upkeep.registrations import Registrar
from millrace_core.errors import CatalogError, ErrorCode
from millrace_core.model.schema import Child
from millrace_core.wire import dead, registrations, status
from millrace_core.wire.topics import CATALOG, CONTROL, DEAD_LETTERS, REGISTRATIONS, STATUS, buried_by
from millrace_wal import Message

from ...poison import cells

CELLS = [cell for topic in (CATALOG, CONTROL, STATUS, REGISTRATIONS) for cell in cells(topic)]
WANTED = sum(cell.letters for cell in CELLS if buried_by(cell.topic) == "api-gateway")


def send(rig: Any) -> None:
    rig.log.append([Message(cell.topic, cell.key, cell.value) for cell in CELLS])


def letters(rig: Any) -> list[dead.DeadLetter]:
    return [dead.decode(record.value) for record in rig.records(DEAD_LETTERS.name)]


def eventually(check: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_all_of_it_while_the_gateway_runs_and_while_it_is_away(rig: Any) -> None:
    rig("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (site INT)")
    send(rig)
    child = Child("d", "meters", "m1", (1,))
    rig.log.append([Message(*registrations.encode(child))])
    failed = status.StreamFailure(7, "why")
    rig.log.append([Message(STATUS.name, status.key(failed), status.encode(failed))])
    eventually(lambda: ("d", "m1") in rig.gateway.context.catalog.children)
    eventually(lambda: rig.gateway.context.board.failures == {(7, None): "why"})
    rig("CREATE TABLE m2 USING meters TAGS (1)")
    eventually(lambda: len(letters(rig)) == WANTED)
    assert Counter(one.topic for one in letters(rig)) == {REGISTRATIONS.name: WANTED}
    assert {one.service for one in letters(rig)} == {"api-gateway"}
    assert rig.gateway.health().ready
    rig.restart()
    rig("CREATE TABLE m3 USING meters TAGS (1)")
    assert {name for _, name in rig.gateway.context.catalog.children} == {"m1", "m2", "m3"}
    eventually(lambda: rig.gateway.context.board.failures == {(7, None): "why"})
    assert rig.gateway.health().ready
    assert len(letters(rig)) == WANTED, "what was committed is not read again"


def test_an_output_that_cannot_be_made_is_a_dead_letter(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CatalogError(ErrorCode.TABLE_EXISTS, "another table has the name")

    monkeypatch.setattr(Registrar, "_make_output", refuse)
    rig.log.append([Message(*registrations.encode(registrations.OutputWanted(7)))])
    eventually(lambda: len(letters(rig)) == 1)
    (letter,) = letters(rig)
    assert (letter.cause, letter.detail) == ("TABLE_EXISTS", "another table has the name")
    assert rig.gateway.health().ready
