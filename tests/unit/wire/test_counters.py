"""The table of counters, the page that shows it, and totals over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from millrace_core.trigger.stream import STEADY
from millrace_core.wire import status
from millrace_core.wire.counters import BY_NAME, COUNTERS, NOTIFY, Tally, combined, folded, sum_of
from millrace_core.wire.status import Counters
from notify_svc.address import Cause, told

PAGE = Path(__file__).parents[3] / "docs" / "COUNTERS.md"


def test_the_page_has_every_counter_as_the_table_says() -> None:
    lines = PAGE.read_text().splitlines()
    shown = [line for line in lines if line.startswith("| `")]
    assert shown == [
        f"| `{one.name}` | {one.unit} | {', '.join(one.services)} | {one.sort} | {one.meaning} |"
        for one in COUNTERS
    ]


def test_names_are_unique_and_moments_are_no_causes() -> None:
    assert len(BY_NAME) == len(COUNTERS)
    assert all((one.unit == "ns") == (one.fold != "sum") for one in COUNTERS)
    assert all(one.sort == "" for one in COUNTERS if one.fold != "sum")
    assert {one.unit for one in COUNTERS if one.sort == "unused"} == {"rows"}
    assert BY_NAME.keys() >= STEADY


def test_every_cause_of_a_lost_notification_has_a_counter() -> None:
    causes = set(get_args(Cause)) - {"idle"}  # nothing waits when a connection ends because it is idle
    assert {f"notify_{told(cause)}" for cause in causes} == {
        one.name for one in COUNTERS if one.sort == "notify_dropped"
    }


@pytest.mark.parametrize(("name", "values", "whole"), [
    ("rows_read", (3, 4), 7), ("last_trigger", (9, 5), 9), ("started", (9, 5), 5),
])  # fmt: skip
def test_several_tasks_of_a_stream(name: str, values: tuple[int, int], whole: int) -> None:
    records = [Counters("trigger-svc", 7, slot, {name: value}) for slot, value in enumerate(values)]
    assert combined(records) == {7: {name: whole}}
    assert folded(BY_NAME[name], None, values[0]) == values[0]


def test_counters_of_a_newer_writer_are_passed_over() -> None:
    assert combined([Counters("trigger-svc", 1, 0, {"of tomorrow": 1, "late": 2})]) == {1: {"late": 2}}


def test_sums_over_the_causes_of_a_sort() -> None:
    assert sum_of({"late": 1, "expired": 2, "undecodable": 4, "null_key": 8}, "unused") == 3


class Log:
    """The last record of each key, as the topic keeps them."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def tally(self) -> Tally:
        """A process that starts and has read the topic."""
        return Tally(NOTIFY, "here", self.known)

    def known(self, stream: int, slot: int) -> Counters | None:
        value = self.kept.get(status.key(Counters(NOTIFY, stream, slot, {})))
        found = None if value is None else status.decode(value)
        assert found is None or isinstance(found, Counters)
        return found

    def write(self, tally: Tally) -> int:
        news = tally.take()
        self.kept |= dict(news)
        return len(news)


def test_totals_go_on_after_a_restart() -> None:
    log = Log()
    tally = log.tally()
    tally.add(1, 0, {"notify_delivered": 2, "notify_full": 0})
    tally.add(1, 1, {"notify_delivered": 1})
    assert log.write(tally) == 2
    assert log.write(tally) == 0
    tally.add(1, 0, {"notify_delivered": 1})
    log.write(tally)
    again = log.tally()
    again.add(1, 0, {"notify_delivered": 4})
    log.write(again)
    found = log.known(1, 0)
    assert found is not None and (found.totals, found.instance) == ({"notify_delivered": 7}, "here")


def test_what_is_counted_in_is_known_after_a_restart() -> None:
    log = Log()
    tally = log.tally()
    tally.add(1, 0, {}, upto=5)
    assert (tally.upto(1, 0), tally.upto(1, 1)) == (5, 0)
    assert log.write(tally) == 1
    again = log.tally()
    assert again.upto(1, 0) == 5
    again.add(1, 0, {}, upto=5)
    assert log.write(again) == 0


def test_partitions_that_went_to_another_process_are_counted_there() -> None:
    log = Log()
    one, other = log.tally(), log.tally()
    one.add(1, 0, {"notify_delivered": 1})
    log.write(one)
    one.keep(set())
    other.add(1, 0, {"notify_delivered": 1})
    log.write(other)
    one.add(1, 0, {"notify_delivered": 1})  # it came back
    log.write(one)
    found = log.known(1, 0)
    assert found is not None and found.totals == {"notify_delivered": 3}
