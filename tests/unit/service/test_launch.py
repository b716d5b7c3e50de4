"""Spark's JVM starts before it is needed, as spark-submit starts it. Here a script takes its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_spark import JVM, SparkSettings, SparkStart
from millrace_spark.launch import _connection
from millrace_spark.session import COMPILES_LATE, UNSAMPLED

SUBMIT = """#!/bin/sh
echo "$OMP_NUM_THREADS $SPARK_CONNECT_MODE" > "{folder}/environment.$$"
for word in "$@"; do echo "$word"; done > "{folder}/words.$$"
exit 3
"""


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the script writes down what it was given, a file for each time."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(SUBMIT.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(program.parents[1]))
    for name in ("OMP_NUM_THREADS", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that they are as before afterwards
    return tmp_path


def _start() -> SparkStart:
    settings = SparkSettings(spark_class_archive=False)
    return SparkStart(settings, "a name", 2, "1g", {JVM: "-Xss4m"}, workers={"OMP_NUM_THREADS": "1"})


def test_the_jvm_is_given_all_settings_and_the_workers_environment(submit: Path) -> None:
    start = _start()
    start.begin()
    with pytest.raises(MillraceError):
        start.session()
    (words,) = submit.glob("words.*")
    told = words.read_text().splitlines()
    options = " ".join(["-Xss4m", *(f'"{one}"' for one in (*COMPILES_LATE, UNSAMPLED))])
    for setting in ("spark.master=local[2]", "spark.app.name=a name", f"{JVM}={options}"):
        assert told[told.index(setting) - 1] == "--conf"
    assert told[-1] == "pyspark-shell"
    (environment,) = submit.glob("environment.*")
    assert environment.read_text() == "1 0\n"


def test_a_jvm_that_does_not_start_is_an_error_and_may_be_tried_again(submit: Path) -> None:
    start = _start()
    for tries in (1, 2):
        with pytest.raises(MillraceError, match="exit code 3") as failed:
            start.session()
        assert failed.value.code is ErrorCode.UNAVAILABLE
        assert len(list(submit.glob("words.*"))) == tries
    assert not os.environ.keys() & {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"}


def test_a_jvm_that_has_begun_is_not_started_twice(submit: Path) -> None:
    start = _start()
    start.begin()
    start.begin()
    with pytest.raises(MillraceError):
        start.session()
    assert len(list(submit.glob("words.*"))) == 1


def test_how_a_jvm_says_where_it_listens() -> None:
    assert _connection(b"\0\0\x30\x39\0\0\0\3abc") == (12345, "abc")
