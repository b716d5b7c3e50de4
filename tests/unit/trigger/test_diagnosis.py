"""What a slot answers to DIAGNOSE STREAM: what a window waits for, and that a row like that closes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.schema import Child
from millrace_core.trigger.slot import diagnosis as module
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.wire import control, diagnosis
from millrace_core.wire.control import DiagnoseStream
from millrace_core.wire.diagnosis import Diagnosis, GroupPart, Wait
from millrace_core.wire.topics import STATUS

MS = 1_000_000


class Asker:
    """A cluster whose answers to DIAGNOSE are kept apart from other status."""

    def __init__(self, kit: Any, slots: int = 2) -> None:
        asker = self

        class Cluster(kit.Cluster):  # type: ignore[misc, name-defined]
            def on_batch(self, number: int, records: list[Any]) -> list[tuple[str, bytes, bytes]]:
                sent = super().on_batch(number, records)
                answers = [one for one in sent if one[1].startswith(diagnosis.PREFIX.encode())]
                assert all(topic == STATUS.name for topic, _, _ in answers)
                asker.parts += [diagnosis.decode(value) for _, _, value in answers]
                return [one for one in sent if one not in answers]

        self.parts: list[Diagnosis] = []
        self.cluster: Any = Cluster(slots)

    def ask(self, uid: int = 1, limit: int = 1_000) -> dict[str, GroupPart]:
        """Group -> its part; ``parts`` holds all slots' answers."""
        self.parts = []
        self.cluster.control(DiagnoseStream(uid, limit))
        self.cluster.run()
        assert [part.slot for part in self.parts] == list(range(self.cluster.slots))
        groups = [group for part in self.parts for group in part.groups]
        return {one.group.table or "/".join(map(str, one.group.key)): one for one in groups}

    def fired(self) -> list[str]:
        return [text for texts in self.cluster.live().values() for text in texts]


@pytest.fixture
def asker(kit: Any) -> Asker:
    return Asker(kit)


def compare(name: str, value: int) -> dict[str, Any]:
    condition = Call(name, (Field("v"), Constant(value)))
    return {"sql": f"v {name} {value}", "columns": ["v"], "expression": msgspec.to_builtins(condition)}


EVENT = {"Event": {"start": compare("gt", 5), "end": compare("lt", 3), "true_for": 4}}
CASES: dict[str, tuple[dict[str, Any], list[Any], list[Wait], tuple[int | None, int | None, int], Any]] = {
    "interval": ({"watermark": 3}, [1, 2, 12], [Wait("row_at", 13)], (0, 10, 2), 13),
    "sliding": (
        {"trigger": {"Sliding": {"sliding": 10}}, "watermark": 3}, [1, 2, 14], [Wait("row_at", 23)],
        (10, 20, 0), 23,
    ),
    # a row one tick earlier would still belong to the session
    "session": ({"trigger": {"Session": {"gap": 4}}}, [1, 3], [Wait("row_at", 8)], (1, 3, 2), [8]),
    "state": (
        {"trigger": {"State": {"column": "v", "true_for": 5}}}, [[1, 7], [2, 7]],
        [Wait("state", words="7"), Wait("true_for", 6)], (1, 2, 2), [[6, 7], [9, 8]],
    ),
    "event": (
        {"trigger": EVENT}, [[1, 6], [2, 4]], [Wait("end"), Wait("true_for", 5)], (1, 2, 2), [[5, 2]],
    ),
    "count": (
        {"trigger": {"Count": {"count": 3, "sliding": 3}}}, [1, 2, 3, 4], [Wait("rows", 2)], (4, 4, 1),
        [5, 6],
    ),
}  # fmt: skip
"""Stream, rows, what the open window waits for, the window, and what closes it (an int: no tick less)."""


@pytest.mark.parametrize("name", CASES)
def test_an_open_window_says_what_closes_it(asker: Asker, kit: Any, name: str) -> None:
    shape, rows, waits, (start, end, count), closing = CASES[name]
    asker.cluster.define(kit.stream(**shape))
    asker.cluster.run()
    asker.cluster.write("c1", rows)
    asker.cluster.run()
    (window,) = asker.ask()["c1"].windows
    assert window.waits == waits
    assert (window.start, window.end, window.rows) == (start, end, count)
    before = asker.fired()
    if isinstance(closing, int):  # a row just too early changes nothing
        asker.cluster.write("c1", [closing - 1])
        asker.cluster.run()
        assert asker.fired() == before
        closing = [closing]
    asker.cluster.write("c1", closing)
    asker.cluster.run()
    assert len(asker.fired()) == len(before) + 1


def test_a_group_without_a_window_says_what_opens_one(asker: Asker, kit: Any) -> None:
    asker.cluster.define(kit.stream(trigger=EVENT))
    asker.cluster.run()
    assert asker.ask() == {}, "no row has come"
    asker.cluster.write("c1", [[1, 4]])
    asker.cluster.run()
    group = asker.ask()["c1"]
    assert (group.windows, group.waits, group.newest) == ([], [Wait("start")], 1)


def test_rows_behind_the_watermark_and_counters_are_told(asker: Asker, kit: Any) -> None:
    asker.cluster.define(kit.stream(watermark=5, expired=20, ignore_disorder=True))
    asker.cluster.run()
    asker.cluster.write("c1", [1, 30, 28, 32])
    asker.cluster.run()
    asker.cluster.write("c1", [20])
    asker.cluster.write("c1", [2])
    asker.cluster.run()
    group = asker.ask()["c1"]
    assert (group.newest, group.until, group.waiting, group.first_waiting) == (32, 27, 3, 28)
    totals = {name: value for part in asker.parts for name, value in part.totals.items()}
    assert (totals["late"], totals["expired"]) == (1, 1)


def test_rows_that_came_with_the_question_are_in_the_answer(asker: Asker, kit: Any) -> None:
    asker.cluster.define(kit.stream())
    asker.cluster.run()
    asker.cluster.write("c1", [3])
    assert asker.ask()["c1"].newest == 3


def test_groups_of_tags_are_told_by_their_own_slots(kit: Any) -> None:
    asker = Asker(kit, slots=3)
    children = {number: control.KnowChildren(number, kit_children(kit)) for number in range(3)}
    asker.cluster.define(kit.stream(partition=("site",)))
    asker.cluster.control(*children.values())
    asker.cluster.run()
    asker.cluster.write("c1", [1])
    asker.cluster.write("c2", [4])
    asker.cluster.run()
    found = asker.ask()
    assert {name: group.newest for name, group in found.items()} == {"1": 1, "2": 4}


def kit_children(kit: Any) -> tuple[Any, ...]:
    return tuple(Child("d", kit.METERS.name, f"c{site}", (site, 0)) for site in (1, 2))


def test_a_stopped_stream_a_dropped_table_and_an_unknown_stream(asker: Asker, kit: Any) -> None:
    asker.cluster.define(kit.stream())
    asker.cluster.control(control.StopStream(1))
    asker.ask()
    assert {(part.hosted, part.running, part.gone) for part in asker.parts} == {(True, False, False)}
    asker.cluster.control(
        control.StartStream(1, {0: 0}, 1), control.DropTable(kit.METERS.uid, "wal.d.meters")
    )
    asker.ask()
    assert {(part.hosted, part.running, part.gone) for part in asker.parts} == {(True, True, True)}
    asker.ask(uid=77)
    assert {(part.hosted, part.failure) for part in asker.parts} == {(False, "")}


def test_a_state_that_cannot_be_read_stops_nobody(
    asker: Asker, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker.cluster.define(kit.stream())
    asker.cluster.run()
    asker.cluster.write("c1", [3])
    asker.cluster.run()

    def broken(*_: Any) -> Any:
        raise ValueError("no such window")

    with monkeypatch.context() as patch:
        patch.setattr(IntervalWindower, "waits", broken)
        assert asker.ask() == {}
    failures = [part.failure for part in asker.parts if part.failure]
    assert failures and all("no such window" in failure for failure in failures)
    assert asker.ask()["c1"].newest == 3


def test_max_delay_and_period_wait_for_processing_time(asker: Asker, kit: Any) -> None:
    asker.cluster.define(kit.stream(max_delay=1_000))
    asker.cluster.run()
    asker.cluster.write("c1", [3])
    written = asker.cluster.now
    asker.cluster.run()
    (window,) = asker.ask()["c1"].windows
    assert window.waits == [Wait("row_at", 10), Wait("delay", (written + 1_000) * MS)]
    asker.cluster.define(kit.stream(2, trigger={"Period": {"every": 1_000}}, table=kit.PLAIN, partition=()))
    asker.cluster.run()
    made = asker.cluster.now
    (group,) = asker.ask(uid=2).values()
    assert group.waits == [Wait("time", (made // 1_000 + 1) * 1_000 * MS)]


def test_a_stream_that_waits_for_history_says_what_it_holds(asker: Asker, kit: Any) -> None:
    spec = kit.stream()
    options = msgspec.structs.replace(spec.options, fill_history=0)
    asker.cluster.write("c1", [1])
    asker.cluster.define(msgspec.structs.replace(spec, options=options))
    asker.cluster.run()
    asker.cluster.write("c1", [5, 6])
    asker.cluster.run()
    group = asker.ask()["c1"]
    assert all(part.holding for part in asker.parts)
    assert (group.held, group.newest) == (2, None)


def test_only_so_many_groups_and_windows_and_bytes(
    asker: Asker, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker.cluster.define(kit.stream(trigger={"Count": {"count": 20, "sliding": 1}}))
    asker.cluster.run()
    for number in range(20):
        asker.cluster.write(f"c{number}", range(number, 12 + number))
    asker.cluster.run()
    found = asker.ask(limit=3)
    assert sum(part.total for part in asker.parts) == 20
    for part in asker.parts:
        newest = [group.newest for group in part.groups]
        assert len(newest) == 3 and newest == sorted(newest, reverse=True)  # type: ignore[type-var]
    assert "c19" in found and "c0" not in found
    assert {(len(group.windows), group.more) for group in found.values()} == {(module.MOST_WINDOWS, 2)}
    assert found["c19"].windows[0].start == 19, "those that close first are told of"
    monkeypatch.setattr(module, "MOST_BYTES", 2_000)
    few = asker.ask()
    assert 0 < len(few) < 20
    for part in asker.parts:
        assert sum(diagnosis.size(group) for group in part.groups) <= 2_000
