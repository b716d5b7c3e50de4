"""Where Spark runs and where files lie: what both services that use Spark take from one group of settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from calc_svc.settings import CalcSettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import load_settings
from millrace_spark import SparkSettings, require_spark, spark_conf
from trigger_svc.settings import TriggerSettings


def test_local_is_as_many_threads_as_the_service_says(tmp_path: Path) -> None:
    settings = SparkSettings(data_dir=tmp_path)
    assert (settings.master(3), settings.executor_python) == ("local[3]", sys.executable)
    assert settings.files_dir == tmp_path.absolute()


@pytest.mark.parametrize("master", ["local[2]", "local[*]", "spark://a:7077", "k8s://https://a:6443", "yarn"])
def test_another_master_is_spark_s_own_matter(master: str) -> None:
    assert SparkSettings(spark_master=master).master(3) == master


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("MILLRACE_SPARK_MASTER", "locl", "local, local[N], spark://"),
        ("MILLRACE_SPARK_MASTER", "local[]", "local, local[N], spark://"),
        ("MILLRACE_FILES", "s3://bucket/millrace", "a folder on this machine"),
        ("MILLRACE_FILES", "/srv/millrace", "a folder on this machine"),
        ("MILLRACE_FILES", "file://elsewhere/srv", "a folder on this machine"),
    ],
)
def test_what_is_not_supported_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(MillraceError) as refused:
        load_settings(TriggerSettings)
    assert refused.value.code is ErrorCode.INVALID_VALUE
    assert variable in refused.value.message and why in refused.value.message


def test_both_services_keep_their_files_where_the_uri_says() -> None:
    uri = "file:///srv/with%20space"
    folder = Path("/srv/with space")
    assert CalcSettings(files=uri).tables == folder / "tables"
    trigger = TriggerSettings(files=uri)
    assert {trigger.checkpoint.parent, trigger.slot_states.parent} == {folder / "trigger"}


def test_the_class_paths_are_the_connector_s_unless_they_are_told(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    for name in ("b.jar", "a.jar", "a.txt"):
        (tmp_path / "spark" / name).touch()
    settings = SparkSettings(jars_dir=tmp_path)
    jars = os.pathsep.join(str(tmp_path / "spark" / name) for name in ("a.jar", "b.jar"))
    found = spark_conf(settings, "2g", {"spark.a": "b"}, jars=True)
    assert found["spark.driver.extraClassPath"] == found["spark.executor.extraClassPath"] == jars
    assert (found["spark.driver.memory"], found["spark.a"]) == ("2g", "b")
    assert "spark.driver.extraClassPath" not in spark_conf(settings, "2g", {})
    given = SparkSettings(spark_driver_jars="/d.jar", spark_executor_jars="/e.jar", spark_driver_host="host")
    found = spark_conf(given, "2g", {}, jars=True)
    assert (found["spark.driver.extraClassPath"], found["spark.executor.extraClassPath"]) == (
        "/d.jar",
        "/e.jar",
    )
    assert found["spark.driver.host"] == "host"


def test_what_relies_on_spark_s_insides_knows_one_version() -> None:
    require_spark("a test", "4.2.3")
    require_spark("a test")
    for other in ("4.1.0", "4.20.0", "5.0.0.dev1"):
        with pytest.raises(MillraceError, match=rf"a test relies .* Spark 4\.2, but version {other} is"):
            require_spark("a test", other)
