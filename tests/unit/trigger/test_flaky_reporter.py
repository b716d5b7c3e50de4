"""The reporter over a log that fails: what it says last is how far the query is, and a tick follows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millrace_core.wire import status
from millrace_core.wire.topics import CLOCK, STATUS, TOPICS, wal_topic
from millrace_wal import MemoryLog, Record, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault
from trigger_svc.reporter import Reporter

from ...conftest import examples
from ...works import Steps

NONE, KILLED_AFTER = InjectedFault.NONE, InjectedFault.KILLED_AFTER
NAMES = [wal_topic("d", name) for name in ("a", "b", "c")]
Change = tuple[int, bool]
"""A topic, by its number, is read on (or comes), or it goes."""


class Query:
    """Up to where each topic that there is was evaluated for good."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}

    def change(self, number: int, reads: bool) -> None:
        if reads:
            self.ends[NAMES[number]] = self.ends.get(NAMES[number], 0) + 1
        else:
            self.ends.pop(NAMES[number], None)

    def progress(self) -> Any:
        return {CLOCK.name: {0: 1}, **{name: {0: end} for name, end in self.ends.items()}}


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
# a topic goes, and nothing else happens
@example([(0, True), (1, True), (0, False)], [])
# it goes while nobody is there who has told of it
@example([(0, True), (1, True), (0, False)], [NONE] * 6 + [KILLED_AFTER])
@given(
    changes=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=8),
    what_fails=st.lists(st.sampled_from([*FAILURES, *KILLS]), max_size=16),
)
def test_what_is_told_last_is_how_far_the_query_is(
    changes: Sequence[Change], what_fails: list[InjectedFault]
) -> None:
    moments = count()
    log = MemoryLog(lambda: next(moments))
    log.ensure_topics(TOPICS)
    query, flaky = Query(), FlakyLog(log, what_fails)

    def made() -> Reporter:
        reporter = Reporter(flaky, query.progress, "host:1")
        cast(Any, reporter.stopping).wait = lambda _: False
        return reporter

    steps = Steps(made)
    for change in changes:
        query.change(*change)
        steps.step()
    flaky.give([])
    steps.step()
    steps.step()
    told = {record.key: record for record in replay(log, STATUS.name)}
    assert {_topic(one): _ends(one) for one in told.values() if one.value is not None} == {
        name: {0: end} for name, end in query.ends.items()
    }
    reported = [record.timestamp for record in told.values() if record.value is not None]
    ticks = [record.timestamp for record in replay(log, CLOCK.name)]
    assert not reported or max(ticks) > max(reported), "counters are told with the tick behind a report"


def _read(record: Record) -> status.ReadUpTo:
    found = status.read(record.key, record.value)
    assert isinstance(found, status.ReadUpTo)
    return found


def _topic(record: Record) -> str:
    return _read(record).topic


def _ends(record: Record) -> dict[int, int]:
    return _read(record).offsets
