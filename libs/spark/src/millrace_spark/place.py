"""Where Spark runs and where files are: one group of settings for all services that use Spark.

Local is the only value in use so far: the driver's own threads compute, and files are on this machine. What
other values need is prepared here, so that no service has to know about it (DESIGN, section 7).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from millrace_service import ServiceSettings, Switch

LOCAL = "local"
MASTERS = "local, local[N], spark://…, k8s://… or yarn"
FILES = "a folder on this machine, such as file:///srv/millrace"


class SparkSettings(ServiceSettings):
    """``spark_…``: where Spark runs; ``files``: files of services that several of them may have to reach."""

    spark_master: str = Field(
        LOCAL,
        title=MASTERS,
        description="Where Spark computes; local: in threads of each service's own process, whose number the "
        "service chooses.",
    )
    spark_driver_host: str = Field(
        "127.0.0.1", description="Address at which Spark's executors reach its drivers."
    )
    spark_driver_bind_address: str = Field("127.0.0.1", description="Address that Spark's drivers listen on.")
    spark_driver_jars: str = Field(
        "",
        description="Jars on the drivers' class path, separated by the path separator; when empty, those of "
        "Spark's Kafka connector in MILLRACE_JARS_DIR.",
    )
    spark_executor_jars: str = Field(
        "", description="The same on executors, with the paths that these see; when empty, the drivers' jars."
    )
    spark_executor_python: str = Field(
        "", description="Python that executors run; when empty, the services' own."
    )
    spark_class_archive: Switch = Field(
        True,
        description="Whether Spark's JVMs start from an archive of their classes, in `classes` below "
        "MILLRACE_JARS_DIR. It is created a minute after the first start that finds none, and takes "
        "about 170 MB for each of the two services.",
    )
    files: str = Field(
        "",
        title=FILES,
        description="URI of the folder for tables, slots' states and checkpoints; when empty, "
        "MILLRACE_DATA_DIR.",
    )

    @field_validator("spark_master")
    @classmethod
    def _known_master(cls, value: str) -> str:
        if not re.fullmatch(r"local(\[(\d+|\*)\])?|(spark|k8s)://\S+|yarn", value):
            raise ValueError(MASTERS)
        return value

    @field_validator("files")
    @classmethod
    def _files_of_this_machine(cls, value: str) -> str:
        uri = urlsplit(value)
        if value and (uri.scheme != "file" or uri.netloc not in ("", "localhost") or not uri.path):
            raise ValueError(FILES)
        return value

    @property
    def files_dir(self) -> Path:
        """The folder that :attr:`files` names, absolute."""
        return Path(unquote(urlsplit(self.files).path)) if self.files else self.data_dir.absolute()

    @property
    def connector(self) -> list[Path]:
        """The jars of Spark's Kafka connector that have been fetched, as absolute paths."""
        return sorted(jar.absolute() for jar in (self.jars_dir / "spark").glob("*.jar"))

    @property
    def driver_jars(self) -> str:
        """The drivers' class path."""
        return self.spark_driver_jars or os.pathsep.join(map(str, self.connector))

    @property
    def executor_python(self) -> str:
        return self.spark_executor_python or sys.executable

    def master(self, threads: int) -> str:
        """Spark's master for a service that computes with that many threads where Spark is local."""
        return f"{LOCAL}[{threads}]" if self.spark_master == LOCAL else self.spark_master
