"""A commit never passes a record that is under way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace_core.notice.progress import CommitProgress, Ticket

A, B = ("t", 0), ("t", 1)


def begin(progress: CommitProgress, offset: int, events: int = 1) -> Ticket:
    ticket = progress.begin(A, offset, events)
    assert ticket is not None
    return ticket


def test_a_commit_waits_for_the_first_that_is_under_way() -> None:
    progress = CommitProgress()
    first, second = begin(progress, 4), begin(progress, 5, 2)
    assert progress.waiting == 3
    assert progress.commits() == {A: 4}
    progress.done(second)
    progress.done(second)
    assert progress.commits() == {}
    progress.done(first)
    assert progress.commits() == {A: 6}
    assert progress.commits() == {}
    assert progress.waiting == 0


def test_a_record_without_events_is_done_at_once() -> None:
    progress = CommitProgress()
    begin(progress, 0, 0)
    progress.begin(B, 9, 0)
    assert progress.commits() == {A: 1, B: 10}


def test_reading_again_begins_what_is_done_and_leaves_what_is_under_way() -> None:
    progress = CommitProgress()
    stuck, done, _ = begin(progress, 5), begin(progress, 6), begin(progress, 7)
    progress.done(done)
    assert progress.commits() == {A: 5}
    assert progress.begin(A, 5, 1) is None
    again = begin(progress, 6)
    assert progress.begin(A, 7, 1) is None
    progress.done(stuck)
    assert progress.commits() == {A: 6}
    progress.done(again)
    assert progress.commits() == {A: 7}


def test_a_topic_that_began_anew_counts_from_its_beginning() -> None:
    progress = CommitProgress()
    progress.done(begin(progress, 900))
    assert progress.commits() == {A: 901}
    ticket = begin(progress, 0)
    assert progress.commits() == {A: 0}
    progress.done(ticket)
    assert progress.commits() == {A: 1}


@given(st.lists(st.integers(0, 3), max_size=20), st.randoms(use_true_random=False))
def test_commits_are_the_longest_done_prefix(events: list[int], random: object) -> None:
    progress = CommitProgress()
    tickets = [begin(progress, offset, count) for offset, count in enumerate(events)]
    left = [t for t in tickets for _ in range(t.left)]
    random.shuffle(left)  # type: ignore[attr-defined]
    reached = 0
    for ticket in left:
        progress.done(ticket)
        reached = progress.commits().get(A, reached)
        assert reached == next((t.offset for t in tickets if t.left), len(tickets))
    assert progress.waiting == 0
