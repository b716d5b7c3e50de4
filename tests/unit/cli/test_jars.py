"""The jars folder: known by the digest of ivy.xml, left whole when a resolution fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.jars import digest, is_resolved, ivy_jar, resolve
from millrace.java import Java
from millrace_core.errors import MillraceError


def _java(tmp_path: Path, script: str) -> Java:
    """A program in Java's place: it takes Ivy's arguments, so no network is needed."""
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Java(program, tmp_path, 17)


# The last argument is <target>/[conf]/[artifact]-[revision].[ext].
_ONE_JAR = """
for last; do :; done
target="${last%%/\\[conf\\]*}"
mkdir -p "$target/broker" && echo new > "$target/broker/a-2.jar"
echo "	found org.example#a;2 in public"
"""


def test_the_ivy_jar_is_pysparks() -> None:
    assert ivy_jar().name.startswith("ivy-")


def test_resolves_once_and_again_when_ivy_xml_changes(tmp_path: Path) -> None:
    ivy, folder = tmp_path / "ivy.xml", tmp_path / "jars"
    ivy.write_text("<one/>")
    (folder / "broker").mkdir(parents=True)
    (folder / "broker" / "a-1.jar").write_text("old")
    said: list[str] = []
    java = _java(tmp_path, _ONE_JAR)
    assert resolve(java, ivy, folder, said.append)
    assert [jar.name for jar in folder.glob("broker/*")] == ["a-2.jar"]
    assert "  found a 2" in said
    assert is_resolved(ivy, folder)
    assert not resolve(java, ivy, folder, said.append)
    ivy.write_text("<two/>")
    assert not is_resolved(ivy, folder)
    assert resolve(java, ivy, folder, said.append)


def test_a_failure_says_why_and_leaves_the_old_jars(tmp_path: Path) -> None:
    ivy, folder = tmp_path / "ivy.xml", tmp_path / "jars"
    ivy.write_text("<one/>")
    (folder / "broker").mkdir(parents=True)
    (folder / "broker" / "a-1.jar").write_text("old")
    java = _java(tmp_path, f"{_ONE_JAR}\necho '  :: org.example#b;1: not found'; exit 1")
    with pytest.raises(MillraceError, match=r"jars could not be resolved: :: org.example#b;1: not found"):
        resolve(java, ivy, folder, lambda _: None)
    assert [jar.name for jar in folder.glob("broker/*")] == ["a-1.jar"]
    assert not is_resolved(ivy, folder)
    assert not list(folder.glob(".new-*"))


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one.xml", tmp_path / "two.xml"
    one.write_text("<a/>")
    two.write_text("<b/>")
    assert digest(one) != digest(two)
    two.write_text("<a/>")
    assert digest(one) == digest(two)
