"""The modules of unit tests that take most of the time, and which of their tests ``make check`` runs.

They try every function against an oracle, every statement against DuckDB, every older stream to its end: one
test of a module says most of what all of them say. So the whole ``make check`` runs every eighth of them;
``make check PKG=…``, ``make test`` and CI run all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

UNIT = Path(__file__).parent / "unit"
EACH = 8
SLOW: dict[str, str] = {
    "analytics": "anode columns detectors forecasters",
    "bench": "iotdb_triggers peers",
    "calc": """
        catch_up damaged first_place flaky_store history_jobs limits one_writer planner poison query_process
        rewritten shares store stored stream_lane trows verify virtual
    """,
    "chaos": "replay",
    "cli": "certificates demo standby supervisor",
    "conformance": "load values",
    "dialect": "conditions parse work_of_conditions",
    "dialect/iotdb": "select",
    "gateway": """
        body continuous data diagnose insert_triggers iotdb iotdb_rpc non_interference seed_triggers
        openapi tdengine_rest trigger_code trigger_life users virtual
    """,
    "language": "one_lexer",
    "notify": "openapi pause receivers subscribe",
    "plan": """
        all_queries envelope fill forecast function_oracles functions_aggregates functions_scalar golden
        interp joins limits_of_statements placeholders query_cases series setwise text_sizes windows
    """,
    "recalc": """
        cut history_again history_held history_openings history_rewritten keys loop older_deletes
        older_dropped older_expired older_fill older_forced older_history older_matrix older_partial
        older_pause older_shown result_table together versions virtual
    """,
    "service": "life serving",
    "trigger": "ahead clock grid poison transcripts",
    "wal": "ended_clients",
    "wire": "arrow",
}
"""Folder below ``tests/unit`` -> names of modules, without ``test_``. A module is here if its tests take
more than 1.3 s of processor time in the profile ``check``, or long in waiting."""

MODULES = frozenset(
    UNIT / folder / f"test_{name}.py" for folder, names in SLOW.items() for name in names.split()
)

Test = TypeVar("Test")


def sample(tests: Sequence[tuple[Path, Test]]) -> tuple[list[Test], list[Test]]:
    """The tests that are run, and those that are left out, each in their order. ``tests``: with their
    modules."""
    run: list[Test] = []
    left: list[Test] = []
    for module, same in groupby(tests, lambda test: test[0]):
        for place, (_, test) in enumerate(same):
            (left if module in MODULES and place % EACH else run).append(test)
    return run, left
