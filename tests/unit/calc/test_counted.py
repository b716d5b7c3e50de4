"""What the trigger loop counts, over restarts too."""

from __future__ import annotations

from calc_svc.loops.counted import messages, tally_of
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.calc.rounds import Arrival, count_round
from millrace_core.recalc.requests import seconds_left
from millrace_core.wire import status
from millrace_core.wire.counters import CALC
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.topics import STATUS

GROUP = Group(1, (), None)


def arrival(offset: int, events: int, *, slot: int = 3, repeated: bool = False, gone: int = 0) -> Arrival:
    told = [TriggerEvent(f"{offset}-{i}", "CLOSE", "LIVE", GROUP, 0, 9, 1, 0) for i in range(events)]
    left = [TriggerEvent("", "GONE", "LIVE", GROUP, 0, 0, 0, 0)] * gone
    return Arrival(TriggerBatch(7, 1, slot, offset, {}, [*told, *left]), 2, offset, repeated)


def product(**counts: int) -> Product:
    made = Product(7)
    made.counts.update(counts)
    return made


class Process:
    """A calc-svc: :meth:`round` takes batches, counts, and writes what it has counted."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog, self.tally = catalog, tally_of(catalog, CALC)

    def round(self, arrivals: list[Arrival], made: Product, now: int = 5) -> dict[str, int]:
        count_round(self.tally, arrivals, [made], now)
        for message in messages(self.tally):
            assert message.topic == STATUS.name
            self.catalog.apply_status(message.key or b"", message.value)
        found = self.catalog.counters_of(CALC, 7, 2)
        return {} if found is None else found.totals


def test_events_are_told_apart_by_who_sent_them() -> None:
    found = Process(CatalogView()).round(
        [arrival(0, 3), arrival(1, 2, slot=-1), arrival(2, 4, repeated=True), arrival(3, 1, gone=5)],
        product(calculations=6, result_rows=2),
    )
    assert found == {
        "events_taken": 4, "events_again": 2, "repeated": 4, "calculations": 6, "result_rows": 2,
        "started": 5, "last_calculated": 5,
    }  # fmt: skip


def test_totals_go_on_and_moments_move() -> None:
    process = Process(CatalogView())
    process.round([arrival(0, 3)], product(calculations=3), 5)
    process.round([arrival(1, 1)], product(failures=1), 8)
    found = process.round([arrival(2, 1)], product(calculations=1), 9)
    assert (found["events_taken"], found["calculations"], found["failures"]) == (5, 4, 1)
    assert (found["started"], found["last_calculated"]) == (5, 9)


def test_events_that_are_read_again_after_a_crash_count_once() -> None:
    catalog = CatalogView()
    Process(catalog).round([arrival(0, 3), arrival(1, 1)], product(calculations=4))
    found = Process(catalog).round([arrival(1, 1), arrival(2, 2)], product(calculations=3))
    assert found["events_taken"] == 6
    assert found["calculations"] == 7, "what is calculated again is counted again"


def test_nothing_is_counted_of_a_stream_that_is_gone() -> None:
    process = Process(CatalogView())
    gone = Product(7, known=False)
    assert process.round([arrival(0, 3)], gone) == {}


def test_counters_name_their_process() -> None:
    catalog = CatalogView()
    Process(catalog).round([arrival(0, 1)], product())
    found = catalog.counters_of(CALC, 7, 2)
    assert found is not None and ":" in found.instance and found.upto == 1
    assert isinstance(next(iter(catalog.statuses.values())), status.Counters)


def test_the_time_that_is_left() -> None:
    assert seconds_left("Running", 0.25, 10) == 30
    assert seconds_left("Running", 0.0, 10) is None
    assert seconds_left("Failed", 0.5, 10) is None
    assert seconds_left("Finished", 0.5, 10) == 0
