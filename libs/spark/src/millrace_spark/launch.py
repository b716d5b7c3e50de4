"""Starts the process of Spark's JVM before it is needed, so that Python loads its own code meanwhile.

PySpark itself starts the JVM when the first session is made, and waits for it. Here it is started in the same
way, by ``spark-submit``, and PySpark connects to it as it does in a program that ``spark-submit`` has started
(``PYSPARK_GATEWAY_PORT``). Only this module uses that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from millrace_core.errors import ErrorCode, MillraceError
from millrace_spark.version import require_spark

_LOOK = 0.02
"""Seconds between two looks at whether the JVM listens."""
_UNINTERRUPTED = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""Ctrl-C is for this process alone, which still needs its JVM to end in good order."""
_GIVEN = {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"}


def has_jvm() -> bool:
    """Whether this process has a JVM, or has been given one: another cannot be started."""
    return SparkContext._gateway is not None or os.environ.keys() >= _GIVEN


class LaunchedJvm:
    """A JVM that starts. It ends when this process does."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """``conf``: all settings of the session that is to come.

        :raises MillraceError: UNAVAILABLE for another version of Spark than the one whose way is known.
        """
        require_spark("starting its JVM early")
        home = _find_spark_home()
        self._folder = Path(tempfile.mkdtemp(prefix="millrace-spark-"))
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        program = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        told = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._file)}
        self.process = subprocess.Popen(
            [*_UNINTERRUPTED, str(Path(home, "bin", "spark-submit")), *settings, *program],
            # it ends when this pipe is closed
            stdin=subprocess.PIPE, env=os.environ | told,
        )  # fmt: skip

    @property
    def _file(self) -> Path:
        """Where the JVM writes its port and a secret, once it listens."""
        return self._folder / "connection"

    def connect(self) -> None:
        """Wait until it listens; then it is the JVM of this process's sessions.

        :raises MillraceError: UNAVAILABLE if it ends instead. It says why in its own output.
        """
        try:
            while not self._file.is_file():
                if self.process.poll() is not None:
                    raise MillraceError(
                        ErrorCode.UNAVAILABLE,
                        f"Spark's JVM ended with exit code {self.process.returncode} while it started: "
                        "see the lines above",
                    )
                time.sleep(_LOOK)
            # the JVM renames the file into place, so it is whole
            port, secret = _connection(self._file.read_bytes())
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        try:
            gateway = launch_gateway()
        finally:
            for name in _GIVEN:
                del os.environ[name]
        gateway.proc = self.process
        SparkContext._ensure_initialized(gateway=gateway)


def _connection(told: bytes) -> tuple[int, str]:
    """Port and secret: a number of four bytes, and a text behind its length."""
    port, length = struct.unpack_from("!ii", told)
    return port, told[8 : 8 + length].decode()
