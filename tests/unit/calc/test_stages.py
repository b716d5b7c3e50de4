"""A stream's job of several stages: the queries of the next one run while answers become messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.jobs import job
from calc_svc.jobs.compute import Calculator
from millrace_core.calc import job_size
from millrace_core.calc.job import deliver
from millrace_core.calc.product import Product
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.events import TriggerEvent

from .test_patience import EVENT, Desk

EVENTS = [msgspec.structs.replace(EVENT, start=at * 60_000, end=(at + 1) * 60_000) for at in range(4)]


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    desk = Desk(tmp_path, duck)
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    return desk


@pytest.fixture
def two_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages have two events."""
    monkeypatch.setattr(job_size, "EVENTS_PER_JOB", 2)


def counts(product: Product) -> dict[int, int]:
    """The results that are written: window start -> number of rows."""
    rows = [row for message in product.messages for row in msgspec.json.decode(message.value or b"")]
    return {row["ts"]: row["n"] for row in rows}


def when_calculated(monkeypatch: pytest.MonkeyPatch, act: Callable[[TriggerEvent], None]) -> None:
    """Before a stage is calculated, act on its first event."""
    calculate = Calculator.calculate

    def acting(self: Calculator, spec: Any, plan: Any, events: Any, lane: Any) -> Any:
        act(events[0])
        return calculate(self, spec, plan, events, lane)

    monkeypatch.setattr(Calculator, "calculate", acting)


def ahead() -> list[str]:
    """The threads that run queries ahead."""
    return [one.name for one in threading.enumerate() if one.name.startswith("job-queries")]


def test_stages_give_what_one_job_gives(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = desk.run(1, *EVENTS)
    monkeypatch.setattr(job_size, "EVENTS_PER_JOB", 1)
    parts = desk.run(1, *EVENTS)
    assert counts(parts) == counts(whole) == {0: 0, 60_000: 1, 120_000: 0, 180_000: 0}
    assert [notice.event for notice in parts.notices] == [notice.event for notice in whole.notices]
    assert parts.counts == whole.counts
    assert ahead() == []


@pytest.mark.usefixtures("two_each")
def test_the_next_queries_run_while_answers_become_messages(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {event.start: threading.Event() for event in EVENTS}
    when_calculated(monkeypatch, lambda event: begun[event.start].set())
    found: list[bool] = []

    def waiting(*given: Any) -> Any:
        found.append(begun[EVENTS[2].start].wait(10))
        return deliver(*given)

    monkeypatch.setattr(job, "deliver", waiting)
    assert len(counts(desk.run(1, *EVENTS))) == 4
    assert found == [True, True]


@pytest.mark.usefixtures("two_each")
@pytest.mark.parametrize("bad", [0, 2])
def test_a_stage_that_fails_is_given_up_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    def act(event: TriggerEvent) -> None:
        if event is EVENTS[bad]:
            raise ZeroDivisionError("in a stage")

    when_calculated(monkeypatch, act)
    product = desk.run(1, *EVENTS)
    assert product.status is not None and "in a stage" in product.status.message
    assert sorted(counts(product)) == [event.start for event in EVENTS[2 - bad : 4 - bad]]
    assert (product.counts["failures"], product.counts["calculations"]) == (2, 2)


@pytest.mark.usefixtures("two_each")
@pytest.mark.parametrize("late", [0, 2])
def test_a_stage_that_must_wait_has_the_whole_job_wait(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    def act(event: TriggerEvent) -> None:
        if event is EVENTS[late]:
            raise MillraceError(ErrorCode.TIMEOUT, "all places are taken")

    when_calculated(monkeypatch, act)
    product = desk.run(1, *EVENTS)
    assert product.waits is not None and product.waits.message == "all places are taken"
    assert (product.messages, product.notices, ahead()) == ([], [], [])


@pytest.mark.usefixtures("two_each")
def test_a_trigger_table_that_goes_meanwhile_takes_the_other_stages_with_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropping(*given: Any) -> Any:
        found = deliver(*given)
        monkeypatch.setattr(job.StreamJobs, "_trigger_table", lambda *_: None)
        return found

    monkeypatch.setattr(job, "deliver", dropping)
    product = desk.run(1, *EVENTS)
    assert len(counts(product)) == 2
    assert product.counts["table_gone"] == 2 and product.waits is None
