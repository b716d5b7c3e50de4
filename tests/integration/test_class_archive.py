"""The archive of classes on real JVMs: of what one has loaded, for the next, harmless when damaged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from millrace.java import Java
from millrace_spark.class_archive import ClassArchive, make_later

pytestmark = pytest.mark.java

(PY4J,) = Path(pyspark.__file__).with_name("jars").glob("py4j-*.jar")


class Ran(NamedTuple):
    """What a JVM has said beside its port, how it ended, and whether it had taken the archive."""

    said: str
    status: int
    used: bool


def _run(java: Java, archive: ClassArchive) -> Ran:
    """A JVM that waits until its standard input ends, as Spark's do."""
    options = archive.options(archive.there)
    command = [
        str(java.program),
        *options,
        "-cp",
        str(PY4J),
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "0",
    ]
    pipe = subprocess.PIPE
    # a JVM says which options it has picked up there
    alone = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=alone
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        port = process.stdout.readline()
        used = archive.used_by(process.pid)
        process.stdin.close()
        said = process.stdout.read()
    assert port.strip().isdigit(), port + said
    return Ran(said, process.returncode, used)


def test_what_one_jvm_has_loaded_the_next_one_maps(java: Java, tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "a folder", "spark-1")
    plain = _run(java, archive)
    assert (plain.status, plain.used, archive.there) == (0, False, False)
    assert "py4j/GatewayServer" in {name.split()[0] for name in archive.names()}
    make_later(archive, java.home, str(PY4J), 0).join()
    assert archive.there
    assert _run(java, archive) == plain._replace(used=True)
    assert not archive.make(java.home, str(PY4J))
    assert {one.suffix for one in archive.folder.iterdir()} == {".jsa", ".lock"}


@pytest.mark.parametrize("content", [b"", b"no archive", bytes(100_000)])
def test_one_that_is_damaged_costs_nothing_and_nobody_hears_of_it(
    java: Java, tmp_path: Path, content: bytes
) -> None:
    archive = ClassArchive(tmp_path, "spark-1")
    plain = _run(java, archive)
    archive.file.write_bytes(content)
    assert _run(java, archive) == plain


def test_one_that_is_cut_short_or_of_other_jars_is_not_taken(java: Java, tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, "spark-1")
    jar = tmp_path / "other.jar"
    jar.write_bytes(PY4J.read_bytes())
    plain = _run(java, archive)
    assert archive.make(java.home, f"{jar}:{PY4J}")
    assert _run(java, archive) == plain
    archive.discard()
    _run(java, archive)
    assert archive.make(java.home, str(PY4J))
    whole = archive.file.read_bytes()
    archive.discard()
    archive.file.write_bytes(whole[: len(whole) // 2])
    assert _run(java, archive) == plain
