"""Trigger types keep to themselves: nobody outside imports one, and no two modules need each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from millrace_core.trigger.types.registry import BUILT_IN

from .statements import statements

ROOT = Path(__file__).parents[2]
TYPES = ROOT / "libs/core/src/millrace_core/trigger/types"
PACKAGE = "millrace_core.trigger.types"
PACKAGES = sorted(path.parent.name for path in TYPES.glob("*/__init__.py"))
SOURCES = sorted(
    path
    for pattern in ("libs/*/src", "*-svc/src", "api-gateway/src")
    for folder in ROOT.glob(pattern)
    for path in folder.rglob("*.py")
)
MOST_MODULES = 15


def imported(source: str) -> Iterator[str]:
    """The modules that a source imports, and what it takes from them, by full names."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def foreign(source: str) -> list[str]:
    """What a module outside the folder takes of a single type: of its package, or its spec."""
    own = {*PACKAGES, *(known.name for known in BUILT_IN)}
    names = (name.removeprefix(f"{PACKAGE}.") for name in imported(source) if name.startswith(f"{PACKAGE}."))
    return [name for name in names if name.split(".")[0] in own]


def test_outside_their_folder_nobody_knows_a_type() -> None:
    outside = {path: foreign(path.read_text()) for path in SOURCES if TYPES not in path.parents}
    assert {str(path.relative_to(ROOT)): names for path, names in outside.items() if names} == {}


def test_the_check_finds_who_knows_a_type() -> None:
    assert SOURCES
    assert foreign(f"from {PACKAGE} import Interval, type_of") == ["Interval"]
    assert foreign(f"import {PACKAGE}.state.arrays") == ["state.arrays"]
    assert foreign(f"from {PACKAGE}.windower import Windower") == []


def test_every_package_is_a_registered_type() -> None:
    assert len(PACKAGES) == len(BUILT_IN)
    assert {known.spec.__module__ for known in BUILT_IN} == {f"{PACKAGE}.{name}.spec" for name in PACKAGES}


def graph() -> dict[str, set[str]]:
    """Module -> the modules of the folder that it imports, without its own package."""
    paths = {
        ".".join((PACKAGE, *path.relative_to(TYPES).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in TYPES.rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        wanted = set(imported(path.read_text()))
        found[name] = {
            other for other in paths if other in wanted or other in {w.rpartition(".")[0] for w in wanted}
        }
    return found


def test_no_two_modules_of_the_folder_need_each_other() -> None:
    left = graph()
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    assert left == {}


def test_no_folder_is_crowded() -> None:
    for folder in (TYPES, *(TYPES / name for name in PACKAGES)):
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES
