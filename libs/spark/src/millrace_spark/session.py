"""How a service's Spark session begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from millrace_spark.class_archive import ClassArchive, home_of_java, known_by, make_later
from millrace_spark.java_objects import free_at_once
from millrace_spark.launch import LaunchedJvm, has_jvm
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
COMPILES_LATE = (
    "-XX:Tier4InvocationThreshold=25000", "-XX:Tier4MinInvocationThreshold=3000",
    "-XX:Tier4CompileThreshold=75000", "-XX:Tier4BackEdgeThreshold=200000",
)  # fmt: skip
"""The optimising compiler waits for five times as many calls as usual: it took a third of the processor time
of a start, for code that is hardly called again (decision 0084)."""
UNSAMPLED = "-XX:-UsePerfData"
"""Nobody reads the JVM's counters, and they are sampled twenty times a second."""


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


class SparkStart:
    """The start of the only session of this process, in two steps."""

    def __init__(
        self, settings: SparkSettings, name: str, threads: int, heap: str, conf: Mapping[str, str], *,
        workers: Mapping[str, str], jars: bool = False,
    ) -> None:  # fmt: skip
        """``threads``: how many compute where Spark is local; ``heap``: the heap of its JVM, as Spark writes
        sizes; ``conf`` and ``jars``: see :func:`spark_conf`; ``workers``: environment of Python workers, and
        of this process."""
        self._settings, self._workers = settings, workers
        self._conf = spark_conf(settings, heap, conf, jars)
        self._conf |= {"spark.master": settings.master(threads), "spark.app.name": name}
        self._archive = class_archive(settings, jars) if settings.spark_class_archive else None
        self._used = self._written = False
        """Whether the JVM was told to use the archive, or to write down what it loads."""
        self._launched: LaunchedJvm | None = None

    def begin(self) -> None:
        """Have the JVM start, which takes seconds, and do not wait for it."""
        if self._launched is not None:
            return
        free_at_once()
        # the JVM forks the workers, which inherit these
        os.environ |= {**self._workers, "PYSPARK_PYTHON": self._settings.executor_python}
        os.environ.setdefault("SPARK_LOCAL_IP", self._settings.spark_driver_bind_address)
        if has_jvm():  # of a session before, or somebody else has started it
            return
        archive = self._archive
        self._used = archive is not None and archive.there
        options = archive.options(self._used) if archive is not None else []
        self._written = bool(options) and not self._used
        self._launched = LaunchedJvm(with_options(self._conf, [*COMPILES_LATE, UNSAMPLED, *options]))

    def session(self) -> SparkSession:
        """The session; begins to start if that has not been done.

        :raises MillraceError: UNAVAILABLE if the JVM does not start; it may be tried again.
        """
        self.begin()
        launched, self._launched = self._launched, None
        if launched is not None:
            launched.connect()
        builder = SparkSession.builder
        for key, value in self._conf.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        if launched is not None and self._archive is not None:
            self._look_after(self._archive, launched.process.pid, session)
        return session

    def _look_after(self, archive: ClassArchive, pid: int, session: SparkSession) -> None:
        """Discard an archive that the JVM did not use; have one made if there was none."""
        jvm = session.sparkContext._jvm
        if self._used and not archive.used_by(pid):
            archive.discard()
        if self._written and jvm is not None:
            home, class_path = (jvm.System.getProperty(one) for one in ("java.home", "java.class.path"))
            make_later(archive, Path(home), class_path)


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
