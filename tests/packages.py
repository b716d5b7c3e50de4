"""Where a package and its tests lie: ``python -m tests.packages core/trigger`` prints both folders.

A package is a folder of the core (``core/trigger``), a member of the workspace (``wal``, ``calc-svc``,
``api-gateway``), or run from its source (``bench``, ``chaos``). Its tests are in ``tests/unit/<name>``, where
the name is the last part of the package's without ``api-`` and ``-svc``. So a service and the part
of the core that it runs share a folder where they share a name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = "libs/core/src/millrace_core"
MEMBERS = ("libs/*/src", "*-svc/src", "api-gateway/src")
SCRIPTS = {"bench": "bench", "chaos": "tests/chaos"}
"""Packages that are not installed."""


def sources(root: Path = ROOT) -> dict[str, Path]:
    """Package -> folder of its sources, from ``root``; of every package, with tests or without."""
    core = {f"core/{place.parent.name}": place.parent for place in sorted(root.glob(f"{CORE}/*/__init__.py"))}
    members = {place.parent.name: place for pattern in MEMBERS for place in sorted(root.glob(pattern))}
    scripts = {name: root / place for name, place in SCRIPTS.items() if (root / place).is_dir()}
    return {name: place.relative_to(root) for name, place in (core | members | scripts).items()}


def folder_of_tests(package: str) -> Path:
    """The folder of a package's tests, whether it exists or not."""
    name = package.rpartition("/")[2].removeprefix("api-").removesuffix("-svc")
    return Path("tests/unit") / name


def with_tests(root: Path = ROOT) -> dict[str, Path]:
    """Package -> folder of its sources, of those packages that have tests of their own."""
    return {name: place for name, place in sources(root).items() if (root / folder_of_tests(name)).is_dir()}


def main(arguments: Sequence[str]) -> int:
    """Prints the folders of sources and of tests; 1 if there is no such package, or it has no tests."""
    (package,) = arguments
    known = with_tests()
    if package not in known:
        sys.stderr.write(f"PKG={package} is not a package with tests; choose one of {', '.join(known)}\n")
        return 1
    sys.stdout.write(f"{known[package]} {folder_of_tests(package)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
