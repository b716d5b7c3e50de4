"""Property tests at random, 1,000 examples each, for as long as is asked: ``make fuzz SECONDS=600``.

``python -m tests.fuzz`` runs pytest with this module as a plugin: of the tests given (all, if none is) the
property tests, in an order that the seed makes; none begins after the time is up. A round that has tried all
of them is followed by one with the next seed, until one fails. The same seed tries the same examples:
``make fuzz SEED=7 TESTS=tests/unit/wal/test_memory.py`` repeats what a failure names. What is found becomes
an ``@example`` of its test.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

ALL = "hypothesis and not java and not stack"
NOTHING_RAN = 5
UNTIL = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz-seconds", type=float, default=None, help="begin no test after that long")
    group.addoption("--fuzz-seed", type=int, default=0, help="makes the order of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed: int = config.getoption("--fuzz-seed")
    items.sort(key=lambda item: shuffled(seed, item.nodeid))


def shuffled(seed: int, name: str) -> bytes:
    """Where a test stands in the order of this seed."""
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """The time begins once the tests are collected: on a busy machine that alone takes a minute."""
    seconds: float | None = session.config.getoption("--fuzz-seconds")
    session.config.stash[UNTIL] = math.inf if seconds is None else time.monotonic() + seconds


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Passes over what is left when the time is up."""
    return True if time.monotonic() >= item.config.stash[UNTIL] else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    failed = [report.nodeid for report in stats.get("failed", [])]
    seed = config.getoption("--fuzz-seed")
    tried = len(failed) + len(stats.get("passed", []))
    terminalreporter.write_line(f"fuzz: seed {seed}, {tried} property tests tried, {len(failed)} failed")
    for name in failed:
        terminalreporter.write_line(f"again: make fuzz SEED={seed} TESTS='{name}'")


def command(seed: int, seconds: float, processes: int, tests: Sequence[str]) -> list[str]:
    """What runs one round."""
    return [
        sys.executable, "-m", "pytest", "-q", "-p", "tests.fuzz", "-m", ALL, "-n", str(processes),
        "--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}", f"--fuzz-seed={seed}",
        f"--fuzz-seconds={seconds}", *(tests or ["tests"]),
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Rounds until time is up or one fails; returns pytest's exit code of the last."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="random, and printed, if it is not given")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("tests", nargs="*")
    chosen = parser.parse_args(arguments)
    until = time.monotonic() + chosen.seconds
    seed: int = random.randrange(10**6) if chosen.seed is None else chosen.seed
    while True:
        seconds = until - time.monotonic()
        code = subprocess.run(command(seed, seconds, chosen.processes, chosen.tests), check=False).returncode
        if code == NOTHING_RAN and time.monotonic() >= until:
            return 0
        if code or chosen.seed is not None or time.monotonic() >= until:
            return code
        seed += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
