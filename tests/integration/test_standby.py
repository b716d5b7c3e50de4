"""calc-svc and trigger-svc that stand by: each takes the place of the one that is killed; nothing is lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from millrace import processes
from millrace.settings import StackSettings
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace.supervision import standby
from millrace_core.errors import MillraceError

pytestmark = pytest.mark.stack

BEGIN = 1_767_225_600_000  # 2026-01-01, on a window's start
NAMES = ("calc-svc", "trigger-svc")


def _say(line: str) -> None:
    sys.__stdout__.write(f"\n  {line.strip()}")  # type: ignore[union-attr]


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def stack(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings.on_free_ports(tmp_path_factory.mktemp("standby"), jars)
    one = Stack(replace(settings, supervise=True, standby=True), _say)
    try:
        one.up()
        yield one
    finally:
        one.down()


def _process(stack: Stack, name: str) -> psutil.Process:
    found = processes.running(stack.place, name)
    assert found is not None
    return found


def test_who_stands_by_takes_the_place_of_who_is_killed(stack: Stack) -> None:
    with Rest(stack.settings.url("api-gateway"), timeout=60) as rest:
        rest.execute("CREATE DATABASE power")
        rest.execute("CREATE TABLE power.meter (ts TIMESTAMP, amps INT)")
        rest.execute(
            "CREATE STREAM power.s INTERVAL(1s) SLIDING(1s) FROM power.meter INTO power.out"
            " AS SELECT _twstart AS ts, count(*) AS n, sum(amps) AS amps FROM %%trows"
        )

        def results(seconds: int) -> bool:
            try:
                found = rest.execute("SELECT n, amps FROM power.out ORDER BY ts").rows
            except MillraceError:  # calc-svc is away
                return False
            return [list(map(int, row)) for row in found] == [[1, second] for second in range(seconds)]

        _until(lambda: all(standby.waits(stack.place, name) for name in NAMES))
        for number, name in enumerate(NAMES):
            rest.execute(f"INSERT INTO power.meter VALUES ({BEGIN + 2_000 * number}, {2 * number})")
            running, waiting = _process(stack, name), _process(stack, standby.name_of(name))
            for one in (running, *running.children(recursive=True)):
                one.kill()
            rest.execute(
                f"INSERT INTO power.meter VALUES ({BEGIN + 2_000 * number + 1_000}, {2 * number + 1})"
            )
            _until(partial(results, 2 * number + 1))
            assert _process(stack, name) == waiting
        rest.execute(f"INSERT INTO power.meter VALUES ({BEGIN + 2_000 * len(NAMES)}, 0)")
        _until(lambda: results(2 * len(NAMES)))
        _until(lambda: all(standby.waits(stack.place, name) for name in NAMES))
    stack.down()
    assert not any(standby.waits(stack.place, name) for name in NAMES)
