"""The transcripts of tests/transcripts (see FORMAT.md there), each replayed under several bundlings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pytest
import yaml

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import VERSION, Slot, evaluate_batch
from millrace_core.trigger.slot.holdings import MOST
from millrace_core.wire import control
from millrace_core.wire.operations import Register
from millrace_core.wire.topics import wal_topic
from trigger_svc.ledger.states import SlotStates
from trigger_svc.spark.workers import judge_slots

FOLDER = Path(__file__).parents[2] / "transcripts"
CASES: dict[str, dict[str, Any]] = {
    f"{file.stem}: {case['title']}": case
    for file in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.load(file.read_text(), yaml.CSafeLoader)
}
TOPIC = wal_topic("d", "meters")
ARROW = pa.schema(
    [
        *(("slot", pa.int32()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())),
        *(("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())),
    ]
)
"""What Spark gives a worker."""


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


def replay(kit: Any, case: dict[str, Any], cluster_type: Any) -> None:
    """A batch for each step, through slots as ``cluster_type`` runs them."""
    cluster, spec = begin(kit, case, cluster_type)
    epochs = iter(range(1, 9))
    for step in case["steps"]:
        act(kit, cluster, spec, step, False, epochs)
        cluster.run()
    check_whole(cluster, case)


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


BATCHES = [name for name, case in CASES.items() if case.get("batches", True)]


@pytest.mark.parametrize("name", BATCHES)
def test_through_the_workers(kit: Any, name: str, tmp_path: Path) -> None:
    """The function that runs in Spark's workers, on the Arrow batches that Spark gives it."""

    class ThroughWorkers(kit.Cluster):  # type: ignore[name-defined, misc]
        runs = itertools.count()

        def on_batch(self, number: int, records: list[tuple[Any, ...]]) -> list[tuple[str, bytes, bytes]]:
            columns = [[number] * len(records), *map(list, zip(*records, strict=True))]
            rows = pa.table(columns, schema=ARROW)
            states, batch = SlotStates(tmp_path, 3), next(self.runs)
            before = states.latest()
            judge = judge_slots(3, states, before, batch, MOST)
            halves = rows.to_batches(max_chunksize=len(records) // 2 + 1)
            found = [tuple(row.values()) for sent in judge(iter(halves)) for row in sent.to_pylist()]
            states.seal(before, batch, {})
            return found

    replay(kit, CASES[name], ThroughWorkers)


@pytest.mark.parametrize("name", BATCHES)
def test_slots_that_stay_in_memory(kit: Any, name: str) -> None:
    """A slot that goes on says what one that is read from its state says, and leaves the same state."""

    class InMemory(kit.Cluster):  # type: ignore[name-defined, misc]
        held: ClassVar[dict[int, Slot | None]] = {}

        def on_batch(self, number: int, records: list[tuple[Any, ...]]) -> list[tuple[str, bytes, bytes]]:
            messages, blob = Messages.of(records), self.blobs.get(number)
            if not Slot.heeds(blob, messages):
                return []
            live = evaluate_batch(blob, number, self.slots, messages, self.held.get(number))
            read = evaluate_batch(blob, number, self.slots, messages)
            assert (live.sent, live.state, live.remarks) == (read.sent, read.state, read.remarks)
            self.blobs[number], self.held[number] = live.state, live.slot
            return live.sent

    InMemory.held.clear()
    replay(kit, CASES[name], InMemory)


KEPT = Path(__file__).parent / "kept_states"
"""``<version>.msgpack``: what slots of that version kept half way through transcripts, with the cases."""


def half_way(kit: Any, case: dict[str, Any], cluster_type: Any = None) -> tuple[Any, Any, Iterator[int]]:
    cluster, spec = begin(kit, case, cluster_type)
    epochs = iter(range(1, 9))
    for step in case["steps"][: len(case["steps"]) // 2]:
        act(kit, cluster, spec, step, False, epochs)
        cluster.run()
    return cluster, spec, epochs


@pytest.mark.parametrize("version", range(6, VERSION + 1))
def test_a_kept_state_of_each_version_goes_on(kit: Any, version: int) -> None:
    """A version that is new has no file yet: ``python -m tests.unit.trigger.test_transcripts`` writes one,
    once, before it is released; a file that is there is never written again."""
    kept = msgspec.msgpack.decode((KEPT / f"{version}.msgpack").read_bytes(), strict=False)
    assert len(kept) >= 25
    for name, (case, blobs) in kept.items():
        cluster, spec, epochs = half_way(kit, case)
        assert {blob[0] for blob in blobs.values()} == {version}, name
        cluster.blobs = {int(slot): Slot.current(blob) for slot, blob in blobs.items()}
        for step in case["steps"][len(case["steps"]) // 2 :]:
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


if __name__ == "__main__":
    from tests.unit.trigger.conftest import Kit

    here = KEPT / f"{VERSION}.msgpack"
    with here.open("xb") as file:
        blobs = {name: [CASES[name], half_way(Kit, CASES[name])[0].blobs] for name in BATCHES}
        file.write(msgspec.msgpack.encode(blobs))
