"""What a job does, and what follows of its results, decided without anything that is read or run."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest
from tests.unit.calc.test_results import OUT, SPEC, event

from millrace_core.calc import job_size
from millrace_core.calc.job import (
    OutputTable,
    deliver,
    errors_of,
    job_of,
    of_known_tables,
    seen_by,
    with_refusals,
    writes,
)  # fmt: skip
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.overtaking import Turns
from millrace_core.calc.results import SubTable
from millrace_core.calc.rounds import AGAIN_SECONDS, Arrival, Repeats, Round, first_within, left_whole
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent

OTHER = Group(78, (5,), "t5")
REFUSED = MillraceError(ErrorCode.TABLE_EXISTS, "another table has the name")


def batch(
    *events: TriggerEvent, number: int = 0, slot: int = 0, seen: dict[int, int] | None = None
) -> TriggerBatch:
    return TriggerBatch(SPEC.uid, 1, slot, number, seen or {}, list(events))


def outcome(*rows: tuple[int, float]) -> Outcome:
    return Outcome(pl.DataFrame(rows, schema={"r0": pl.Int64, "r1": pl.Float64}, orient="row"))


def test_a_job_asks_for_what_the_stream_calculates_and_tells_of_the_rest() -> None:
    opened, closed, gone = event("OPEN"), event("CLOSE"), event("GONE", group=OTHER)
    job = job_of(SPEC, [batch(opened), batch(closed, gone, number=1)])
    (stage,) = job.stages
    assert (list(stage.events), list(stage.asked), list(job.gone)) == ([opened, closed], [closed], [OTHER])
    assert (job.calculates, job.events, job.missed, stage.rows) == (True, 2, 0, 3)


def test_a_stream_that_is_gone_asks_for_nothing() -> None:
    job = job_of(None, [batch(event("CLOSE"))])
    assert (job.calculates, job.events) == (False, 1)


def test_of_the_delays_of_a_window_the_last_one_counts() -> None:
    early, late, other = (
        event(cause="DELAY"),
        event(cause="DELAY", end=130_000),
        event(cause="DELAY", start=0),
    )
    job = job_of(SPEC, [batch(early), batch(other), batch(late)])
    assert [list(stage.events) for stage in job.stages] == [[other, late]]
    assert job.missed == 1


def test_a_job_is_cut_where_spark_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_size, "EVENTS_PER_JOB", 2)
    several = [event(start=number) for number in range(5)]
    assert [len(stage.events) for stage in job_of(SPEC, [batch(*several)]).stages] == [2, 2, 1]


def test_what_triggers_have_seen_is_the_furthest_of_all_batches() -> None:
    written = event(written={0: (3, 12), 2: (0, 1)})
    assert seen_by([batch(written, seen={0: 10, 1: 4}), batch(seen={1: 3})]) == {0: 12, 1: 4, 2: 1}


def test_events_of_tables_that_were_dropped_are_left_out() -> None:
    of_all, of_one = event(), event(group=OTHER)
    assert of_known_tables([of_all, of_one], {"t5"}) == [of_all, of_one]
    assert of_known_tables([of_all, of_one], {"t6"}) == [of_all]
    stage = job_of(SPEC, [batch(of_all, of_one)]).stages[0].of([of_one])
    assert (list(stage.events), list(stage.asked)) == ([of_one], [of_one])


def test_a_refusal_takes_the_place_of_results_and_of_no_other_error() -> None:
    own, broken = MillraceError(ErrorCode.INVALID_VALUE, "of its own"), event(start=0)
    fine, other = event(), event(group=OTHER)
    outcomes = {id(fine): outcome((1, 1.0)), id(other): outcome(), id(broken): Outcome(pl.DataFrame(), own)}
    found = with_refusals([fine, other, broken], outcomes, {77: REFUSED})
    assert [found[id(one)].error for one in (fine, other, broken)] == [REFUSED, None, own]
    assert errors_of(found) == [REFUSED, own]


def test_results_are_written_and_told_of_in_the_output_tables_precision() -> None:
    closed = event()
    output = OutputTable(OUT, lambda group: SubTable("t_77", {"site": 4}), {"t_77"}.__contains__)
    plan = _Plan()
    found = deliver(SPEC, plan, output, [closed], {id(closed): outcome((60_000, 1.5))}, None)  # type: ignore[arg-type]
    (message,) = found.messages
    assert msgspec.json.decode(message.value or b"") == [{"start": 60_000_000, "avg": 1.5}]
    (notice,) = found.notices
    assert (notice.event["windowStart"], notice.event["tableName"]) == (60_000_000, "t_77")
    assert dict(found.counts) == {"result_rows": 1, "null_key": 0}


def test_a_stream_that_only_tells_writes_nothing() -> None:
    options = msgspec.structs.replace(SPEC.options, calc_notify_only=True)
    spec, closed = msgspec.structs.replace(SPEC, options=options), event()
    output = OutputTable(OUT, lambda group: SubTable("t_77", {}), lambda name: True)
    found = deliver(spec, _Plan(), output, [closed], {id(closed): outcome((60_000, 1.5))}, None)  # type: ignore[arg-type]
    assert not writes(spec) and not found.messages
    assert "tableName" not in found.notices[0].event


class _Plan:
    """What delivery asks of a plan."""

    precision, result = "ms", SPEC.result


# ---------------------------------------------------------------------- rounds


def test_batches_that_came_before_are_repeated_until_a_later_number() -> None:
    repeats = Repeats()
    first = repeats.round_of([(batch(number=4), 0, 0), (batch(number=4), 0, 1), (batch(number=5), 0, 2)])
    assert [arrival.repeated for arrival in first.arrivals] == [False, True, False]
    again = repeats.round_of([(batch(number=5), 0, 3)])
    assert not again.arrivals[0].repeated  # nothing of the first round is done
    repeats.done(first)
    late = repeats.round_of(
        [(batch(number=5), 0, 4), (batch(number=5, slot=-1), 0, 5), (batch(number=6), 0, 6)]
    )
    assert [arrival.repeated for arrival in late.arrivals] == [True, False, False]


def test_streams_whose_jobs_wait_are_left_whole() -> None:
    found = Round(
        [
            Arrival(batch(number=n), partition, offset, False)
            for n, partition, offset in ((0, 0, 7), (1, 1, 3), (2, 0, 9))
        ]
    )
    wanted = Wanted(wal={"wal.a.b": {0: 5}})
    left = left_whole(found, {SPEC.uid: Behind(wanted, "wal.a.b/0 offset 5 (at 4)", 0)}, 100.0)
    assert {part: (one.offset, one.upto, one.wanted) for part, one in left.items()} == {
        (SPEC.uid, 0): (7, 10, wanted), (SPEC.uid, 1): (3, 4, wanted),
    }  # fmt: skip
    away = left_whole(found, {SPEC.uid: MillraceError(ErrorCode.UNAVAILABLE, "away")}, 100.0)
    assert {one.again for one in away.values()} == {100.0 + AGAIN_SECONDS}
    assert not found.without(left).arrivals


def test_a_turn_that_ended_without_results_tells_nobody() -> None:
    turns, windows = Turns(), {SPEC.uid: [batch(event())]}
    slow, failed, quick = turns.begin(), turns.begin(), turns.begin()
    turns.end(failed)
    assert turns.written(quick, windows) == {}
    assert turns.written(slow, windows) == windows
    assert turns.written(turns.begin(), windows) == {}


@pytest.mark.parametrize(("sizes", "taken"), [([], 0), ([9], 1), ([2, 3, 1], 2), ([6, 1], 1), ([1, 1], 2)])
def test_a_round_takes_what_is_not_too_long_together(sizes: list[int], taken: int) -> None:
    assert first_within(5, sizes) == taken
