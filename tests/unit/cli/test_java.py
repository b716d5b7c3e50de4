"""Finding Java: the right one, or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.java import find_java, version_of
from millrace_core.errors import MillraceError


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("bash: java: command not found", None),
    ],
)
def test_version_of_a_banner(banner: str, version: int | None) -> None:
    assert version_of(banner) == version


def _fake_java(home: Path, banner: str) -> None:
    """A program that answers ``-version`` as an old Java would; no real old Java is at hand."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)


def test_an_old_java_is_refused_by_name_and_version(tmp_path: Path) -> None:
    _fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(
        MillraceError, match=r"Java 17 or newer is required, but the one in JAVA_HOME .* is Java 11"
    ):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    _fake_java(tmp_path / "new", 'openjdk version "21.0.1"')
    _fake_java(tmp_path / "old", 'openjdk version "11.0.2"')
    found = find_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path / "old" / "bin")})
    assert found == (tmp_path / "new/bin/java", tmp_path / "new", 21)


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        MillraceError, match="Java 17 or newer is required, but java was not found in PATH"
    ) as caught:
        find_java({"PATH": str(tmp_path)})
    assert "\n" not in str(caught.value)
