"""Messages reach the slots by the reader, by micro-batches in the driver, and by workers: whichever takes
them, and whatever is killed in between, the same is told, under the same numbers and ids."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ...conftest import examples
from .deployment import Deployment, Died

SESSION = {"Session": {"gap": 5}}
write = st.tuples(st.just("write"), st.sampled_from("abc"), st.integers(0, 3))
STEPS = st.one_of(
    write, write, write,
    st.tuples(st.sampled_from(["ahead", "driver", "workers", "died", "seal", "kill", "tick"])),
    st.tuples(st.just("define"), st.integers(0, 3)),
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def nothing_is_waited_for() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trigger_svc.ahead.WAIT", 0.0)
        yield


@settings(max_examples=examples(60))
@given(steps=st.lists(STEPS, min_size=4, max_size=30))
@example(steps=[("write", "a", 1), ("ahead",), ("kill",), ("write", "a", 3), ("workers",), ("kill",)])
@example(steps=[("write", "a", 1), ("write", "b", 3), ("died",), ("kill",), ("write", "a", 3), ("workers",)])
@example(steps=[("define", 2), ("ahead",), ("write", "a", 3), ("ahead",), ("kill",), ("write", "b", 3)])
def test_any_way_tells_the_same(kit: Any, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = Deployment(Path(folder) / "mixed", kit)
        plain = Deployment(Path(folder) / "plain", kit)
        both = (one, plain)
        for each in both:
            each.define(1)
            each.define(2, partition=(), trigger=SESSION)
            each.in_driver()
        defined = 2
        clock = {"a": 0, "b": 0, "c": 0}
        for step, *more in steps:
            if step == "write":
                child, gap = more
                clock[child] += 1 + 4 * gap
                for each in both:
                    each.write(child, clock[child])
            elif step == "define":
                defined += 1
                for each in both:
                    each.define(defined, late=more[0])
            else:
                _do(one, step)
        for each in both:
            each.finish()
            each.regrouped()
        assert _final(one) == _final(plain)


def _do(one: Deployment, step: str) -> None:
    match step:
        case "ahead":
            one.read_ahead()
        case "driver":
            one.in_driver()
        case "workers":
            one.in_workers()
        case "died":
            try:
                one.in_workers(fails=True)
            except Died:
                one.kill()
        case "seal":
            one.seal()
        case "kill":
            one.kill()


def _final(one: Deployment) -> set[tuple[Any, ...]]:
    """Of streams by table: all events; of the ungrouped one the windows, for tables reach it in no order."""
    return {event for event in one.events() if event[0] != 2}
