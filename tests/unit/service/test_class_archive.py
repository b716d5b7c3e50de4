"""The archive of Spark's classes: which one is whose, and with which options a JVM starts."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from millrace_spark import SparkSettings
from millrace_spark.class_archive import ClassArchive, home_of_java, known_by
from millrace_spark.session import JVM, class_archive, with_options


def _java(folder: Path) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return folder


def test_another_java_and_other_jars_have_another_archive(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_text("one")
    found = known_by(tmp_path, [jar])
    assert known_by(tmp_path, [jar]) == found
    assert known_by(tmp_path / "java", [jar]) != found
    assert known_by(tmp_path, []) != found
    jar.write_text("another")
    assert known_by(tmp_path, [jar]) != found


def test_the_class_path_with_the_connector_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "java")))
    (tmp_path / "jars" / "spark").mkdir(parents=True)
    (tmp_path / "jars" / "spark" / "a.jar").touch()
    settings = SparkSettings(jars_dir=tmp_path / "jars")
    found = [class_archive(settings, jars) for jars in (False, True)]
    assert [one.name.split("-")[0] for one in found if one] == ["spark", "connector"]
    assert {one.folder for one in found if one} == {tmp_path / "jars" / "classes"}


def test_there_is_none_without_a_folder_of_jars_or_a_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "java")))
    assert class_archive(SparkSettings(jars_dir=tmp_path / "nowhere"), False) is None
    assert not (tmp_path / "nowhere").exists()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert home_of_java() is None
    assert class_archive(SparkSettings(jars_dir=tmp_path), False) is None


def test_a_jvm_writes_down_its_classes_until_there_is_an_archive(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes", "spark-1")
    assert not archive.there
    assert archive.options(False) == [
        f"-XX:DumpLoadedClassList={tmp_path}/classes/spark-1.{os.getpid()}.classes"
    ]
    archive.file.touch()
    assert archive.there
    assert archive.options(True)[0] == f"-XX:SharedArchiveFile={archive.file}"


def test_of_jvms_that_did_not_live_long_enough_a_few_lists_are_kept(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "spark-1")
    (tmp_path / "spark-2.1.classes").touch()
    for age in range(10):
        one = tmp_path / f"spark-1.{age}.classes"
        one.touch()
        os.utime(one, (1_000_000 - age, 1_000_000 - age))
    assert archive.options(False)
    kept = {one.name for one in tmp_path.glob("spark-1.*.classes")}
    assert kept == {f"spark-1.{number}.classes" for number in (0, 1, 2, os.getpid())}
    assert (tmp_path / "spark-2.1.classes").is_file()


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "jars").write_text("no folder")
    assert ClassArchive(tmp_path / "jars" / "classes", "spark-1").options(False) == []


def test_lines_of_several_jvms_are_taken_once_and_whole(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "spark-1")
    (tmp_path / "spark-1.1.classes").write_text("# made by a JVM\na/A\nb/B\n")
    (tmp_path / "spark-1.2.classes").write_text("b/B\nc/C\nd/ha")
    (tmp_path / "spark-2.3.classes").write_text("e/E\n")
    assert archive.names() == ["a/A", "b/B", "c/C"]


def test_it_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "spark-1")
    with (tmp_path / ".spark-1.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not archive.make(tmp_path, "")
    assert not archive.there


def test_a_java_that_makes_none_leaves_nothing(tmp_path: Path) -> None:
    java = _java(tmp_path / "java")
    (java / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    archive = ClassArchive(tmp_path, "spark-1")
    (tmp_path / "spark-1.1.classes").write_text("a/A\n")
    assert not archive.make(java, "")
    assert {one.name for one in tmp_path.iterdir()} == {"java", ".spark-1.lock"}


def test_the_options_come_behind_those_of_the_service() -> None:
    assert with_options({"a": "b"}, []) == {"a": "b"}
    assert with_options({JVM: "-Xss4m"}, ["-XX:A=/a b"]) == {JVM: '-Xss4m "-XX:A=/a b"'}
    assert with_options({}, ["-XX:A"]) == {JVM: '"-XX:A"'}
