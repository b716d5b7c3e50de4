"""The tables of folders in README.md and docs/ARCHITECTURE.md name what is there, and all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "libs/core/src/millrace_core"
MEMBERS = sorted(
    str(project.parent.relative_to(ROOT))
    for pattern in ("libs/*", "*-svc", "api-gateway")
    for project in ROOT.glob(f"{pattern}/pyproject.toml")
)
OTHERS = ["bench", "docs", "examples", "schemas", "tests"]
_NAME = re.compile(r"`([\w./-]+)`")


def table(document: str) -> list[tuple[str, str]]:
    """The two cells of each line of the first table whose heading begins with ``folder``."""
    _, _, rest = (ROOT / document).read_text().partition("\n| folder |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [(first, second) for first, second in cells]


def folders(document: str) -> list[str]:
    """The folders of a table, without the names of packages in brackets beside them."""
    cells = (re.sub(r"\(.*?\)", "", first) for first, _ in table(document))
    return [name.rstrip("/") for cell in cells for name in _NAME.findall(cell)]


def parts(package: Path) -> Iterator[str]:
    for place in package.glob("*/__init__.py"):
        yield place.parent.name


@pytest.mark.parametrize(("document", "others"), [("README.md", OTHERS), ("docs/ARCHITECTURE.md", ["bench"])])
def test_every_folder_is_named_once_and_exists(document: str, others: list[str]) -> None:
    assert sorted(folders(document)) == sorted([*MEMBERS, *others])


@pytest.mark.parametrize("member", ["libs/core", *(one for one in MEMBERS if not one.startswith("libs/"))])
def test_the_parts_of_a_package_are_those_of_its_line(member: str) -> None:
    (text,) = [second for first, second in table("docs/ARCHITECTURE.md") if f"`{member}`" in first]
    (package,) = (path.parent for path in (ROOT / member / "src").glob("*/__init__.py"))
    named = set(_NAME.findall(text))
    modules = {path.stem for path in package.glob("*.py")}
    assert set(parts(package)) - named == set(), "the line does not name these"
    assert named - set(parts(package)) - modules == set(), "the line names what is not there"
