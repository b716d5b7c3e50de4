"""The transcripts of tests/transcripts (see FORMAT.md there), each replayed under several bundlings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from millrace_core.wire import control
from millrace_core.wire.rows import Register
from millrace_core.wire.topics import wal_topic
from trigger_svc.shim import INPUT, judge_slot

FOLDER = Path(__file__).parents[2] / "transcripts"
CASES: dict[str, dict[str, Any]] = {
    f"{file.stem}: {case['title']}": case
    for file in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(file.read_text())
}
TOPIC = wal_topic("d", "meters")


def begin(kit: Any, case: dict[str, Any], cluster_type: Any = None) -> tuple[Any, Any]:
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in case["stream"].items()}
    spec = kit.stream(**options)
    cluster = (cluster_type or kit.Cluster)()
    cluster.define(spec)
    for name, (site, room) in case.get("children", {}).items():
        cluster.operate(name, Register({"site": site, "room": room}))
    return cluster, spec


def act(kit: Any, cluster: Any, spec: Any, step: Any, one_row: bool, epochs: Iterator[int]) -> None:
    """Send what a step says."""
    if step == "restart":
        cluster.run()  # START names offsets; what was written before it is judged before it
        cluster.control(control.StopStream(spec.uid))
        cluster.control(control.StartStream(spec.uid, {0: cluster.ends.get(TOPIC, 0)}, next(epochs)))
        return
    if "tick" in step:
        cluster.tick(step["tick"])
    for child, rows in step.get("write", {}).items():
        if not one_row:
            cluster.write(child, rows)
            continue
        last = {row["ts"]: row for row in map(kit.as_row, rows)}
        for ts in sorted(last):
            cluster.write(child, [last[ts]])


def check_whole(cluster: Any, case: dict[str, Any]) -> None:
    wanted: dict[str, list[str]] = {}
    for step in case["steps"]:
        if isinstance(step, dict):
            for line in step.get("expect", []):
                group, event = line.split(" ", 1)
                wanted.setdefault(group, []).append(event)
    assert cluster.live() == wanted
    assert cluster.delayed() == case.get("delayed", [])
    assert cluster.recalculated() == set(case.get("recalc", []))
    assert cluster.totals() == case.get("totals", {})


@pytest.mark.parametrize("one_row", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_step_by_step(kit: Any, name: str, one_row: bool) -> None:
    case = CASES[name]
    cluster, spec = begin(kit, case)
    epochs = iter(range(1, 9))
    told: dict[str, int] = {}
    for step in case["steps"]:
        act(kit, cluster, spec, step, one_row, epochs)
        cluster.run()
        if isinstance(step, dict) and "expect" in step:
            live = cluster.live()
            news = [f"{group} {text}" for group in live for text in live[group][told.get(group, 0) :]]
            assert sorted(news) == sorted(step["expect"])
            told = {group: len(texts) for group, texts in live.items()}
    check_whole(cluster, case)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("batches", True)])
def test_in_few_batches(kit: Any, name: str, parts: int) -> None:
    case = CASES[name]
    cluster, spec = begin(kit, case)
    epochs = iter(range(1, 9))
    for number, step in enumerate(case["steps"]):
        act(kit, cluster, spec, step, False, epochs)
        if parts == 2 and number == len(case["steps"]) // 2:
            cluster.run()
    cluster.run()
    check_whole(cluster, case)


class State:
    """What Spark keeps for a slot, as the shim sees it."""

    def __init__(self, blob: bytes | None) -> None:
        self.get = (blob,)

    @property
    def exists(self) -> bool:
        return self.get[0] is not None

    def update(self, value: tuple[bytes]) -> None:
        self.get = value


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("batches", True)])
def test_through_the_shim(kit: Any, name: str) -> None:
    """The function that runs in Spark's workers, on the frames that Spark gives it."""

    class ThroughShim(kit.Cluster):  # type: ignore[name-defined, misc]
        def on_batch(self, number: int, records: list[tuple[Any, ...]]) -> list[tuple[str, bytes, bytes]]:
            frame = pd.DataFrame([(number, *record) for record in records], columns=list(INPUT))
            state = State(self.blobs.get(number))
            halves = iter([frame[: len(frame) // 2], frame[len(frame) // 2 :]])  # Arrow batches
            found = [row for sent in judge((number,), halves, state) for row in sent.itertuples(index=False)]
            if state.exists:
                self.blobs[number] = state.get[0]
            return [tuple(row) for row in found]

    case = CASES[name]
    judge = judge_slot(3)
    cluster, spec = begin(kit, case, ThroughShim)
    epochs = iter(range(1, 9))
    for step in case["steps"]:
        act(kit, cluster, spec, step, False, epochs)
        cluster.run()
    check_whole(cluster, case)


def test_the_transcripts_are_there() -> None:
    assert len(CASES) >= 25


def test_a_wrong_expectation_is_noticed(kit: Any) -> None:
    case = {"stream": {"interval": 10}, "steps": [{"write": {"c1": [1, 12]}}, {"expect": []}]}
    cluster, spec = begin(kit, case)
    act(kit, cluster, spec, case["steps"][0], False, iter(()))  # type: ignore[index]
    cluster.run()
    with pytest.raises(AssertionError):
        check_whole(cluster, case)
