"""Folders stay small enough to be known, and imports form no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from .statements import statements

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("libs/*/src"), *ROOT.glob("*-svc/src"), *ROOT.glob("api-gateway/src")])
MODULES_OF_A_FOLDER = 15
"""Besides ``__init__.py``."""
LARGER: dict[str, int] = {}
"""Folders that are still larger, and how large: entries only shrink, and go."""


def modules(*more: str) -> dict[str, Path]:
    """All modules of the packages by their names, and those of further folders."""
    places = [(source, source) for source in SOURCES] + [(ROOT, ROOT / folder) for folder in more]
    found = {}
    for root, folder in places:
        for file in folder.rglob("*.py"):
            parts = file.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(name: str, file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """What a module imports of ours, wherever in it the statement stands, for types alone as well."""
    for node in statements(file.read_text()):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        for one in names:
            target = one if one in known else one.rpartition(".")[0]
            if target in known and target != name:
                yield target


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


@cache
def whole() -> Mapping[str, set[str]]:
    """What each module imports, of the packages, the tests and the bench."""
    known = modules("tests", "bench")
    return {name: set(imported(name, file, known)) for name, file in known.items()}


def test_imports_form_no_circle() -> None:
    assert len(whole()) > 900
    assert circles(whole()) == []


def between_folders(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Circles between what lies side by side in one folder: a folder imports what any of its modules does.
    A package's own ``__init__`` is its face, and is none of its members."""
    parents = {name.rpartition(".")[0] for name in graph if "." in name}
    parents |= {parent[: at.start()] for parent in parents for at in re.finditer(r"\.", parent)}
    for parent in sorted(parents):
        within: dict[str, set[str]] = {}
        for name, targets in graph.items():
            if not name.startswith(f"{parent}."):
                continue
            member = name[len(parent) + 1 :].split(".")[0]
            others = {one[len(parent) + 1 :].split(".")[0] for one in targets if one.startswith(f"{parent}.")}
            within.setdefault(member, set()).update(others - {member})
        yield from ([f"{parent}.{one}" for one in circle] for circle in circles(within))


def test_imports_of_folders_form_no_circle() -> None:
    known = modules().keys()
    graph = {name: targets & known for name, targets in whole().items() if name in known}
    assert list(between_folders(graph)) == []


def test_the_search_finds_circles_of_folders() -> None:
    graph = {"p.a.x": {"p.b.y"}, "p.b.y": set(), "p.b.z": {"p.a.w"}, "p.a.w": set(), "p.c": {"p.a.x"}}
    assert circles(graph) == []
    assert list(between_folders(graph)) == [["p.a", "p.b"]]


def test_the_search_finds_circles(tmp_path: Path) -> None:
    file = tmp_path / "c.py"
    file.write_text("from . import d\nfrom ..e import f\nfrom ..g.h import x\n")
    known = dict.fromkeys(["a.b.d", "a.e", "a.g.h"], file)
    assert list(imported("a.b.c", file, known)) == ["a.b.d", "a.e", "a.g.h"]
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(circles(graph)) == [["b", "c"], ["d", "e"]]


def test_folders_are_small() -> None:
    folders: dict[str, int] = {}
    for file in modules().values():
        if file.name != "__init__.py":
            folder = str(file.parent.relative_to(ROOT))
            folders[folder] = folders.get(folder, 0) + 1
    large = {folder: count for folder, count in folders.items() if count > MODULES_OF_A_FOLDER}
    assert large == LARGER, "a folder has at most 15 modules; one that has become smaller leaves LARGER"
