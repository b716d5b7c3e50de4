"""docs/IOTDB_RULES.md names modules and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "IOTDB_RULES.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| rule"))
]
SPECIFIED = (
    "iotdb-trigger-refused", "iotdb-trigger-path-patterns", "iotdb-trigger-stateful-count",
    "iotdb-trigger-show-drop", "iotdb-cq-refused", "iotdb-cq-group-by-level", "iotdb-cq-into-templates",
    "iotdb-cq-show-drop",
)  # fmt: skip
"""Cases of the specification, which does not lie here."""
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
} | {file.stem for file in (ROOT / "tests" / "conformance" / "cases").rglob("*.yaml")}
CORE = ROOT / "libs" / "core" / "src" / "millrace_core"


def _named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _place(name: str) -> Path:
    if name.startswith("api_gateway/"):
        return ROOT / "api-gateway" / "src" / name
    if name.startswith(("libs/", "examples/")):
        return ROOT / name
    return (CORE if name.startswith(("timeline/", "wire/")) else CORE / "dialect" / "iotdb") / name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_each_rule_has_a_place_and_a_test(row: list[str]) -> None:
    _, where, tests = row
    assert [name for name in _named(where) if not _place(name).exists()] == []
    assert [name for name in _named(tests) if name not in TESTS and name not in SPECIFIED] == []
    assert _named(where) and _named(tests)


def test_there_are_rules() -> None:
    assert len(ROWS) > 40
