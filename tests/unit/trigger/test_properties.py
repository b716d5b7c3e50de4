"""What must hold for any rows: batches and restarts are invisible, groups independent, state bounded.

And INTERVAL is its definition over the sorted rows, once late rows are recalculated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.slot import Slot

from ...conftest import examples

Message = tuple[str, list[int]]
times = st.lists(st.integers(-30, 120), min_size=1, max_size=4)
messages = st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3"]), times), max_size=12)
cuts = st.lists(st.booleans(), min_size=12, max_size=12)
options = st.fixed_dictionaries(
    {
        "interval": st.sampled_from([5, 10, 13]),
        "sliding": st.sampled_from([4, 10, 20]),
        "offset": st.integers(0, 3),
        "watermark": st.sampled_from([0, 7, 20]),
        "expired": st.sampled_from([None, 40]),
        "ignore_disorder": st.booleans(),
        "ignore_nodata": st.booleans(),
    }
)


def replay(kit: Any, some: list[Message], cut: Callable[[int], bool], **stream: Any) -> Any:
    cluster = kit.Cluster()
    cluster.define(kit.stream(kinds=("WINDOW_OPEN", "WINDOW_CLOSE"), **stream))
    for number, (child, rows) in enumerate(some):
        cluster.write(child, rows)
        if cut(number):
            cluster.run()
    cluster.run()
    return cluster


def outcome(cluster: Any) -> tuple[Any, ...]:
    return cluster.live(), cluster.recalculated(), cluster.totals()


@settings(max_examples=examples(100))
@given(messages, cuts, options)
def test_batches_are_invisible(
    kit: Any, some: list[Message], cut: list[bool], stream: dict[str, Any]
) -> None:
    one_by_one = replay(kit, some, lambda _: True, **stream)
    assert outcome(replay(kit, some, cut.__getitem__, **stream)) == outcome(one_by_one)


@settings(max_examples=examples(60))
@given(messages, options)
def test_groups_are_independent(kit: Any, some: list[Message], stream: dict[str, Any]) -> None:
    together = replay(kit, some, lambda _: False, **stream).live()
    for child in ("c1", "c2", "c3"):
        alone = replay(kit, [m for m in some if m[0] == child], lambda _: False, **stream).live()
        assert alone == {name: found for name, found in together.items() if name == child}


@settings(max_examples=examples(60))
@given(messages, cuts)
def test_a_batch_that_runs_again_says_the_same(kit: Any, some: list[Message], cut: list[bool]) -> None:
    """As after a crash: the slots' states of before the batch, the same messages."""
    cluster = kit.Cluster()
    cluster.define(kit.stream(watermark=7))
    cluster.define(kit.stream(2, partition=()))
    for number, (child, rows) in enumerate(some):
        cluster.write(child, rows)
        if not cut[number]:
            continue
        before, waiting, said = dict(cluster.blobs), list(cluster.waiting), len(cluster.triggers)
        ends = dict(cluster.ends)
        cluster.run()
        first, after = cluster.triggers[said:], dict(cluster.blobs)
        cluster.blobs, cluster.waiting, cluster.ends = before, waiting, ends
        cluster.run()
        # regrouped rows carry the clock's time of the batch that sent them: only their numbers count here
        again = cluster.triggers[said + len(first) :]
        assert [(b.stream, b.slot, b.number, b.seen) for b in again] == [
            (b.stream, b.slot, b.number, b.seen) for b in first
        ]
        assert [[e.id for e in b.events] for b in again] == [[e.id for e in b.events] for b in first]
        assert cluster.blobs.keys() == after.keys()


def windows_of(rows: set[int], stream: dict[str, Any]) -> dict[tuple[int, int], int]:
    """The definition: all windows from the first that ends after the first row, if they have closed."""
    interval, sliding, offset = stream["interval"], stream["sliding"], stream["offset"]
    t = max(rows) - stream["watermark"]
    start = -1000 * sliding + offset
    found = {}
    while start + interval <= t:
        if start + interval > min(rows):
            found[start, start + interval] = sum(start <= ts < start + interval for ts in rows)
        start += sliding
    if stream["ignore_nodata"]:
        found = {window: count for window, count in found.items() if count}
    return found


@settings(max_examples=examples(150))
@given(messages, cuts, options.map(lambda o: o | {"expired": None, "ignore_disorder": False}))
def test_interval_is_its_definition(
    kit: Any, some: list[Message], cut: list[bool], stream: dict[str, Any]
) -> None:
    cluster = replay(kit, some, cut.__getitem__, **stream)
    recalculated = cluster.recalculated()
    for child in {child for child, _ in some}:
        rows = {ts for name, mine in some if name == child for ts in mine}
        wanted = windows_of(rows, stream)
        closed: dict[tuple[int, int], str] = {}
        for text in cluster.live().get(child, []):
            kind, _, count = text.split(" ")
            if kind != "CLOSE":
                continue
            start, end = _bounds(text)
            assert (start, end) not in closed, "a window closes once"
            closed[start, end] = count
        again = {_bounds(text.split(" ", 1)[1]) for text in recalculated if text.startswith(f"{child} CLOSE")}
        # windows before the group's first judged row exist only where a late row fell into one
        assert set(wanted) - set(closed) <= again | {w for w, count in wanted.items() if count == 0}
        assert set(closed) | again <= set(wanted)
        for window, count in closed.items():
            assert window in again or count in ("x*", f"x{wanted[window]}")


def _bounds(text: str) -> tuple[int, int]:
    span = text.split(" ")[1]
    cut = span.index("-", 1)
    return int(span[:cut]), int(span[cut + 1 :])


def test_state_is_bounded_by_open_windows(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(watermark=50))
    sizes = []
    for begin in range(0, 100_000, 2_000):
        cluster.write("c1", range(begin, begin + 2_000))
        cluster.run()
        sizes.append(len(cluster.blobs[0]))
    assert max(sizes[5:]) <= sizes[4] + 64
    (stream,) = Slot.restore(cluster.blobs[0]).contents.streams.values()
    assert len(stream.clock.lists["waiting"]["ts"]) == 50
