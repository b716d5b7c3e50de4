"""History told behind the answer to a change: what was asked later is told last, whatever the order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from calc_svc.loops.recalc import RecalcLoop
from millrace_core.recalc.requests import Batch
from millrace_core.recalc.sending import Work
from millrace_core.wire import events, recalc
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.operations import Delete
from millrace_core.wire.topics import HANDOVER, RECALC, TOPICS, TRIGGERS
from millrace_service import Life
from millrace_wal import MemoryLog, Message, replay

from ...conftest import examples
from .conftest import ALL, CUT_AGAIN, make, same_but_empty, truth
from .test_loop import until

LOGGER = structlog.get_logger("test")


def joined(kit: Any, deployment: Any, folder: Path, first: bool) -> Any:
    """Of sessions of history (1 to 3, 12 to 14) and late rows between them. History has been asked for."""
    fill = {"fill_history_first" if first else "fill_history": ALL}
    together = deployment(folder, make(kit, "session", delete_recalc=True, **fill))
    together.write("c1", [1, 3])
    together.write("c1", [12, 14])
    together.run()
    together.define()
    together.run()
    return together


@pytest.mark.parametrize("first", [True, False])
def test_a_session_that_is_open_again_keeps_the_end_that_it_gets_live(
    kit: Any, deployment: Any, tmp_path: Path, first: bool
) -> None:
    """As in a chaos run (seed 8): history was told again while late rows had opened its session again, and
    that was written behind the end which came meanwhile."""
    together = joined(kit, deployment, tmp_path, first)
    asked = list(together.requests)
    together.answer()
    together.write("c1", [7, 9])
    together.run()
    together.answer()
    found = [
        output
        for place, one in enumerate(asked)
        for output in together.answers.answer([one], (0, 90 + place), Work(), together.behind(one))
    ]
    together.write("c1", [40])
    together.run()
    together.answer()
    assert together.windows() == {1: (14, -1)}
    together.hear(found)
    assert together.windows() == {1: (14, -1)}


@pytest.mark.parametrize("name", ["interval", "overlapping", "session", "state", "event"])
@pytest.mark.parametrize("first", [True, False])
def test_the_neighbours_of_windows_that_have_changed_are_told(
    kit: Any, deployment: Any, tmp_path: Path, first: bool, name: str
) -> None:
    """As in a chaos run (seed 3): of history all windows were left out that a changed one ends at."""
    fill = {"fill_history_first" if first else "fill_history": ALL}
    spec = make(kit, name, delete_recalc=True, **fill)
    together = deployment(tmp_path, spec)
    table = {ts: [3, 1, 3, 2, 1][ts % 5] for ts in (1, 4, 11, 13, 21, 24, 31, 38, 41, 43, 51)}
    together.write("c1", list(table.items()))
    together.run()
    together.define()
    together.run()
    late = {15: 3, 16: 1}
    together.write("c1", list(late.items()))
    together.run()
    together.answer()
    together.write("c1", [(90, 2)])
    together.run()
    together.answer()
    same_but_empty(name, together.windows(), truth(spec, {**table, **late, 90: 2}, 90))


@pytest.mark.parametrize("partition", [("tbname",), ()])
@pytest.mark.parametrize("first", [True, False])
def test_a_delete_counts_though_its_group_has_no_live_row_yet(
    kit: Any, deployment: Any, tmp_path: Path, first: bool, partition: tuple[str, ...]
) -> None:
    """As in a chaos run (seed 3): history was told with the row, then the row was deleted, then live rows
    went on with a session that began with it."""
    fill = {"fill_history_first" if first else "fill_history": ALL}
    spec = msgspec.structs.replace(make(kit, "session", delete_recalc=True, **fill), partition=partition)
    together = deployment(tmp_path, spec)
    together.write("c1", [1, 3])
    together.run()
    together.define()
    together.run()
    asked, together.requests = together.requests, []
    found = [
        output
        for place, one in enumerate(asked)
        for output in together.answers.answer([one], (0, place), Work(), together.behind(one))
    ]
    together.cluster.operate("c1", Delete(1, 1))
    together.run()
    together.run()  # where groups are not their tables', it is told to the slot of its group first
    together.hear(found)
    for output in found:
        if not isinstance(output, TriggerBatch):
            together.cluster.send(
                HANDOVER.name, recalc.key(output.stream, output.slot), recalc.encode(output)
            )
    together.run()
    together.write("c1", [6, 40])
    together.run()
    together.answer()
    assert together.windows() == {3: (6, 2)}


@pytest.mark.parametrize("first", [True, False])
def test_a_session_that_late_rows_have_joined_stays_joined(
    kit: Any, deployment: Any, tmp_path: Path, first: bool
) -> None:
    """As in a chaos run (seed 34): of two sessions that late rows had joined the old end came back."""
    together = joined(kit, deployment, tmp_path, first)
    asked = list(together.requests)
    together.answer()
    together.write("c1", [7, 9])
    together.write("c1", [40])
    together.run()
    together.answer()
    assert together.windows()[1][0] == 14
    together.requests += asked
    together.answer()
    assert together.windows()[1][0] == 14


@pytest.mark.parametrize("change", ["late", "deleted"])
def test_what_history_has_yet_to_tell_does_not_undo_what_a_change_has_told(
    kit: Any, deployment: Any, tmp_path: Path, change: str
) -> None:
    """No kill: FILL_HISTORY hands over first. A change is asked for and answered before the windows of
    history are told."""
    together = joined(kit, deployment, tmp_path, first=False)
    together.write("c1", [40])
    together.run()
    asked, together.requests = together.requests, []
    answers = [together.answers.answer([one], (0, 1), Work(), together.behind(one)) for one in asked]
    held = []
    for answer in answers:
        for output in answer:
            if isinstance(output, TriggerBatch):
                held.append((output, answer))
                break
            together.cluster.send(
                HANDOVER.name, recalc.key(output.stream, output.slot), recalc.encode(output)
            )
    together.run()
    if change == "late":
        together.write("c1", [7, 9])
    else:
        together.cluster.operate("c1", Delete(14, 14), together.table)
    together.run()
    together.answer()
    expected = {1: (14, 6)} if change == "late" else {1: (3, 2), 12: (12, 1)}
    assert {start: end for start, (end, _) in together.windows().items()}.items() >= {
        max(expected): expected[max(expected)][0]
    }.items()
    assert held, "history has something to tell"
    for output, answer in held:
        together.hear([output, *answer])
    found = {start: end for start, (end, _) in together.windows().items()}
    assert found == {start: end for start, (end, _) in expected.items()}


def test_the_lane_of_history_answers_again_what_the_log_says_was_asked_later(
    kit: Any, deployment: Any, tmp_path: Path
) -> None:
    """After a kill; that of changes is done with its requests."""
    together = joined(kit, deployment, tmp_path, first=True)
    log = MemoryLog()
    log.ensure_topics(TOPICS)

    def key_of(request: recalc.Request) -> bytes:
        return recalc.key(request.stream, request.slot)

    def append(requests: list[Any]) -> None:
        for one in requests:
            log.append([Message(RECALC.name, key_of(one), recalc.encode(one))])

    asked = list(together.requests)
    append(asked)
    together.answer()
    together.write("c1", [7, 9])
    together.write("c1", [40])
    together.run()
    changed = msgspec.structs.replace(asked[0], why="CHANGE", rest=None, written={})
    append([changed, recalc.Request(99, 0, asked[0].slot, 2, "CHANGE", {}, 0)])
    lane = RecalcLoop(log, together.answers, "calc-history", lambda partition: 1 << 60)
    (partition, offset), *_ = (
        (one.partition, one.offset) for one in replay(log, RECALC.name) if one.key == key_of(changed)
    )
    behind = list(lane._later(Batch(asked[:1], (partition, offset), {partition: offset})))
    assert changed in behind, "what was asked behind it, of this stream and of others"
    together.answer()
    loop = Life(lane, LOGGER)
    loop.start()

    def committed() -> int:
        with log.changed:
            group = log._groups.get("calc-history")
            return 0 if group is None else sum(group.committed.values())

    until(lambda: committed() == len(asked) + 2)
    loop.stop()
    told = [events.decode(record.value or b"") for record in replay(log, TRIGGERS.name)]
    assert {batch.slot for batch in told} == {-1}, "all answers of a stream lie in one partition, in order"
    ends = [one.end for batch in told for one in batch.events if (one.kind, one.start) == ("CLOSE", 1)]
    assert set(ends) == {14}, "of a window that has changed only the last word is told"


steps = st.lists(
    st.tuples(
        st.integers(-60, 15), st.sampled_from([None, 1, 1, 2, 3, "delete"]), st.integers(0, 12),
        st.booleans(), st.booleans(),
    ),
    min_size=3, max_size=12,
)  # fmt: skip
old_rows = st.dictionaries(st.integers(0, 60), st.sampled_from([None, 1, 1, 2, 3]), min_size=1, max_size=12)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", CUT_AGAIN)
@settings(max_examples=examples(8, cases=True))
@given(old=old_rows, steps=steps, watermark=st.sampled_from([0, 6]))
def test_history_told_again_at_any_moment_changes_nothing(
    kit: Any, deployment: Any, name: str, first: bool, old: dict[int, Any], steps: list[Any], watermark: int
) -> None:
    spec = make(
        kit, name, watermark, delete_recalc=True, **{"fill_history_first" if first else "fill_history": ALL}
    )
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), spec)
        table = dict(old)
        for ts in sorted(old):
            together.write("c1", [{"ts": ts, "v": old[ts]}])
        together.run()
        together.define()
        together.run()
        history = list(together.requests)
        together.answer()
        newest = max(old)
        ends = [(40 + n, value, 0, True, True) for n, value in enumerate((1, 9, 8, 1, 7))]
        for forward, value, length, cut, again in [*steps, *ends]:
            ts = max(0, newest + forward)
            if value == "delete":
                together.cluster.operate("c1", Delete(ts, ts + length), together.table)
                table = {t: v for t, v in table.items() if not ts <= t <= ts + length}
            else:
                together.write("c1", [{"ts": ts, "v": value}])
                table[ts] = value
                newest = max(newest, ts)
            if cut:
                together.run()
                together.answer()
            if again:
                together.requests += history
                together.answer()
        same_but_empty(name, together.windows(), truth(spec, table, newest - watermark))


@pytest.mark.parametrize("first", [True, False])
def test_slots_that_ask_twice_are_each_told_of_their_own_groups(
    kit: Any, deployment: Any, tmp_path: Path, first: bool
) -> None:
    """As in a chaos run (seed 35): trigger-svc was killed while it asked, and asked again."""
    fill = {"fill_history_first" if first else "fill_history": ALL}
    children = ("c1", "c2", "c3", "c4")
    together = deployment(tmp_path, make(kit, "session", **fill), children)
    for child in children:
        together.write(child, [1, 3])
    together.run()
    together.define()
    together.run()
    together.requests = sorted(2 * together.requests, key=lambda request: request.slot)
    assert {request.slot for request in together.requests} == {0, 1}
    together.answer_oldest(len(together.requests))
    for child in children:
        together.write(child, [5, 40])
    together.run()
    together.answer()
    assert [together.windows(child) for child in children] == [{1: (5, 3)}] * len(children)
