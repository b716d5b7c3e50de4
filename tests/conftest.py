"""How thorough property tests are: ``pytest --hypothesis-profile=check`` (``make check``), ``test``
(``make test``), ``full`` (where none is named), or ``fuzz`` (``make fuzz``, decision 0042).

All but the last try the same examples each time, so that what fails failed by what was changed; what is new
is looked for by the last."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from tests.slow import sample

# Read when NumPy is loaded: threads that wait for each other over a dozen numbers took most of the CPU.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Collecting tests makes a million objects that stay: looking among them for garbage took 40 % of its time.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on garbage is collected again, without what the collection of tests has made, and less often:
    trees of queries come and go by the thousand, and few of them in circles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()


def pytest_sessionstart() -> None:
    """Hypothesis draws from the constants of every module that is loaded, so any change of the code, and
    any choice of tests, would change the examples of all of them. Where they are to stay the same, it has
    none to draw from."""
    if settings().derandomize:
        assert callable(providers._get_local_constants), "this version of Hypothesis names it otherwise"
        none = Constants()
        providers._get_local_constants = lambda: none


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true", help="of the slow modules run every eighth test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("sample"):
        items[:], left = sample([(item.path, item) for item in items])
        config.hook.pytest_deselected(items=left)


def pytest_unconfigure() -> None:
    """Extensions say what is left at the end of a process, and all of that would be."""
    gc.unfreeze()


FULL = 100
# nothing is timed: the machine may be busy with something else
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SAME = settings(UNTIMED, derandomize=True, database=None)
settings.register_profile("full", SAME, max_examples=FULL)
settings.register_profile("test", SAME, max_examples=20)
settings.register_profile("check", SAME, max_examples=5)
# where CI is set Hypothesis would derandomise what says nothing of it
RANDOM = settings(UNTIMED, derandomize=False)
settings.register_profile("fuzz", RANDOM, max_examples=10 * FULL, print_blob=True)
settings.load_profile("full")


def thorough() -> bool:
    """Whether all combinations of what a test combines are tried; else each pair of them once."""
    return settings().max_examples >= FULL


def examples(most: int, cases: bool = False) -> int:
    """How many examples to try of a property that is worth ``most`` of them in full: at least three, or two
    of a test with many ``cases`` (the first one is the simplest there is, the second one random)."""
    return max(min(most, 2 if cases else 3), most * settings().max_examples // FULL)


Case = TypeVar("Case", bound=tuple[object, ...])


def tried(cases: Sequence[Case]) -> list[Case]:
    """All combinations where tests are thorough; else as few of them as have each pair of values that goes
    together, by which most faults are found."""
    return list(cases) if thorough() else pairwise(cases)


def pairwise(cases: Sequence[Case]) -> list[Case]:
    """Some of the cases, in their order, that have every pair of values that any of them has."""
    wanted = {case: set(combinations(enumerate(case), 2)) for case in cases}
    left = set().union(*wanted.values())
    chosen = set()
    while left:
        best = max(cases, key=lambda case: len(wanted[case] & left))
        chosen.add(best)
        left -= wanted[best]
    return [case for case in cases if case in chosen]
