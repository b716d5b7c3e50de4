"""The files that the documents name exist, and the decisions are numbered without gaps or doubles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
PARTS = (
    "libs",
    "trigger-svc",
    "calc-svc",
    "notify-svc",
    "api-gateway",
    "bench",
    "tests",
    "examples",
    "docs",
    "schemas",
)
WRITTEN = ("bench/results/", ".jars", ".millrace", ".peers", ".venv", "uv.lock")
"""What runs write, and the repository does not hold."""
_FILE = re.compile(r"`([\w./-]+\.(?:py|md|yml|yaml|toml|sh|json|lock|xml))`|`((?:[\w.-]+/)+)`")
_DECISION = re.compile(r"\bdecisions?(?: |/)(\d{4})")


@cache
def files() -> frozenset[str]:
    """Every file and folder of the project, by its path."""
    inside = (path for part in PARTS for path in (ROOT / part).rglob("*"))
    return frozenset(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*"), *inside))


def named(text: str) -> Iterator[str]:
    """The files and folders that a text names between backquotes."""
    for file, folder in _FILE.findall(text):
        yield file or folder.rstrip("/")


def missing(text: str, existing: Set[str]) -> list[str]:
    """What a text names that is not there; ``trigger/slot/slot.py`` may lie in any folder."""
    ends = tuple(f"/{path}" for path in existing)
    return [
        name
        for name in named(text)
        if not name.startswith(WRITTEN)
        and not any(end.endswith(f"/{name.removeprefix('./')}") for end in ends)
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_named_files_exist(document: Path) -> None:
    assert missing(document.read_text(), files()) == []


def test_the_check_finds_what_is_missing() -> None:
    text = (
        "`a/here.py` and `here.py`, `a/`; `gone.py`, `b/here.py`, `b/`; `bench/results/latest.json`, here.py"
    )
    assert missing(text, {"x/a", "x/a/here.py"}) == ["gone.py", "b/here.py", "b"]


def test_decisions_have_one_number_each() -> None:
    numbers = sorted(path.name[:4] for path in DECISIONS.glob("*.md"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    for path in DECISIONS.glob("*.md"):
        assert path.read_text().startswith(f"# {path.name[:4]} "), path.name


def test_decisions_that_are_cited_exist() -> None:
    there = {path.name[:4] for path in DECISIONS.glob("*.md")}
    sources = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    cited = {number for path in (*DOCUMENTS, *sources) for number in _DECISION.findall(path.read_text())}
    assert cited and cited <= there


def glossary() -> list[str]:
    rows = [line for line in (ROOT / "docs/GLOSSARY.md").read_text().splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows[1:]]


def test_the_glossary_has_at_most_20_words_and_the_code_uses_each() -> None:
    words = glossary()
    assert words and len(words) <= 20
    code = "\n".join(path.read_text() for path in (ROOT / "libs").rglob("src/**/*.py")).lower()
    assert [word for word in words if word.lower() not in code] == []
