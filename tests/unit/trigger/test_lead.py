"""How long before their time MAX_DELAY's ticks are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace_core.trigger.stream import APART
from trigger_svc.lead import LONGEST, Lead

MS = 1_000_000


@given(st.integers(0, 10_000), st.integers(0, 400))
def test_it_follows_what_ticks_take(before: int, now: int) -> None:
    lead = Lead()
    for _ in range(100):
        lead.learn(before * MS)
    assert 0 <= lead.time <= LONGEST
    for _ in range(100):
        lead.learn(now * MS)
    assert abs(lead.time - max(now * MS - APART // 2, 0)) <= MS


def test_one_slow_batch_changes_little() -> None:
    lead = Lead()
    first = lead.time
    lead.learn(500 * MS)
    assert first < lead.time < first + 60 * MS
