"""How a service's Spark session begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from millrace_spark.class_archive import ClassArchive, home_of_java, known_by, make_later
from millrace_spark.java_objects import free_at_once
from millrace_spark.place import SparkSettings

COMMON: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # over TCP, delayed acknowledgements cost each Python stage 40 ms
    "spark.python.unix.domain.socket.enabled": "true",
    # this would walk the stack at every call
    "spark.python.sql.dataFrameQueryContext.enabled": "false",
}
"""Settings that both services want."""
JVM = "spark.driver.extraJavaOptions"
"""The setting that holds the options of Spark's JVM."""


def spark_conf(
    settings: SparkSettings, heap: str, conf: Mapping[str, str], jars: bool = False
) -> dict[str, str]:
    """All settings of a session: the common ones, those of the place, and the service's own ``conf``.

    ``jars``: whether the service needs Spark's jars on the class path.
    """
    place = {
        "spark.driver.memory": heap,
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.bindAddress": settings.spark_driver_bind_address,
    }
    if jars:
        # not spark.jars: a file system among the jars is needed before spark.jars are loaded
        place["spark.driver.extraClassPath"] = settings.driver_jars
        place["spark.executor.extraClassPath"] = settings.spark_executor_jars or settings.driver_jars
    return {**COMMON, **place, **conf}


def start_spark(
    settings: SparkSettings, name: str, threads: int, heap: str, conf: Mapping[str, str], *,
    workers: Mapping[str, str], jars: bool = False,
) -> SparkSession:  # fmt: skip
    """Start the only session of this process. ``threads``: how many compute where Spark is local; ``heap``:
    the heap of its JVM, as Spark writes sizes; ``conf`` and ``jars``: see :func:`spark_conf`; ``workers``:
    environment of Python workers, and of this process."""
    free_at_once()
    # the JVM forks the workers, which inherit these
    os.environ |= {**workers, "PYSPARK_PYTHON": settings.executor_python}
    os.environ.setdefault("SPARK_LOCAL_IP", settings.spark_driver_bind_address)
    builder = SparkSession.builder.master(settings.master(threads)).appName(name)
    archive = class_archive(settings, jars) if settings.spark_class_archive else None
    there = archive is not None and archive.there
    options = archive.options(there) if archive is not None else []
    for key, value in spark_conf(settings, heap, with_options(conf, options), jars).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if archive is not None and options:
        _look_after(archive, there, session)
    return session


def class_archive(settings: SparkSettings, jars: bool) -> ClassArchive | None:
    """The archive for JVMs with this class path; None if there is no place for it, or no Java.

    The folder of the jars is not created: where there are no jars, nothing is left behind.
    """
    home = home_of_java()
    if home is None or not settings.jars_dir.is_dir():
        return None
    ours = [Path(jar) for jar in settings.driver_jars.split(os.pathsep)] if jars else []
    spark = sorted(Path(pyspark.__file__).with_name("jars").glob("*.jar"))
    kind = "connector" if jars else "spark"
    return ClassArchive(settings.jars_dir.absolute() / "classes", f"{kind}-{known_by(home, [*ours, *spark])}")


def with_options(conf: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
    """The settings with these options added to the JVM's."""
    given = [conf[JVM]] if JVM in conf else []
    return {**conf, **({JVM: " ".join([*given, *(f'"{one}"' for one in options)])} if options else {})}


def _look_after(archive: ClassArchive, there: bool, session: SparkSession) -> None:
    """Discard an archive that the JVM did not use; have one made if there was none."""
    gateway, jvm = session.sparkContext._gateway, session.sparkContext._jvm
    process = getattr(gateway, "proc", None)
    if process is None or jvm is None:  # somebody else has started the JVM
        return
    if there:
        if not archive.used_by(process.pid):
            archive.discard()
        return
    home, class_path = (jvm.System.getProperty(one) for one in ("java.home", "java.class.path"))
    make_later(archive, Path(home), class_path)
