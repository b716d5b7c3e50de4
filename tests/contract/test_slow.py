"""The modules of which ``make check`` runs a sample, and the sample."""

from __future__ import annotations

from tests.slow import EACH, MODULES, UNIT, sample

SLOW, OTHER = UNIT / "plan" / "test_joins.py", UNIT / "plan" / "test_errors.py"


def test_every_slow_module_is_there() -> None:
    assert [module for module in MODULES if not module.is_file()] == []


def test_of_a_slow_module_each_eighth_test_is_run_and_of_others_all() -> None:
    assert SLOW in MODULES
    assert OTHER not in MODULES
    tests = [(OTHER, "a"), *((SLOW, str(n)) for n in range(2 * EACH + 1)), (OTHER, "b"), (OTHER, "c")]
    run, left = sample(tests)
    assert run == ["a", "0", str(EACH), str(2 * EACH), "b", "c"]
    assert left == [str(n) for n in range(2 * EACH) if n % EACH]


def test_each_slow_module_gives_at_least_one_test() -> None:
    assert sample([(module, module) for module in MODULES]) == (list(MODULES), [])
