"""Packages and their tests find each other by the names of their folders (``make check PKG=…``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..packages import ROOT, folder_of_tests, main, sources, with_tests


def test_every_folder_of_unit_tests_belongs_to_a_package() -> None:
    folders = {place.name for place in (ROOT / "tests" / "unit").iterdir() if any(place.glob("test_*.py"))}
    assert folders == {folder_of_tests(package).name for package in sources()} & folders


def test_packages_are_found_by_their_folders() -> None:
    found = with_tests()
    assert found["core/trigger"] == Path("libs/core/src/millrace_core/trigger")
    assert found["trigger-svc"] == Path("trigger-svc/src")
    assert found["wal"] == Path("libs/wal/src")
    assert folder_of_tests("core/trigger") == folder_of_tests("trigger-svc") == Path("tests/unit/trigger")
    assert folder_of_tests("api-gateway") == Path("tests/unit/gateway")
    assert all((ROOT / place).is_dir() for place in found.values())


def test_an_unknown_package_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core/triggers"]) == 1
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert told[0].startswith("PKG=core/triggers ")
    assert all(package in told[0] for package in with_tests())
    assert main(["core/plan"]) == 0
    assert capsys.readouterr().out == "libs/core/src/millrace_core/plan tests/unit/plan\n"
