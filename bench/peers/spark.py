"""Plain Spark Structured Streaming: Kafka to Kafka, append mode, the very settings that trigger-svc uses."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from bench.peers import environment
from bench.peers.peer import ProgramPeer, versions
from bench.peers.run import Run
from millrace_spark import spark_conf
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.query import SINK, SOURCE
from trigger_svc.spark.session import COMPILED, CONF

PACKAGES = ("pyspark", "pandas", "pyarrow")
# without batches without data a window would be told only when more data comes
OTHER_THAN_OURS = {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}
POLL = "spark.sql.streaming.pollingDelay"
_START = "startingOffsets"


class Spark(ProgramPeer):
    """One streaming query for each stream, in one session. It finds its checkpoints by itself."""

    name = "spark"

    def prepare(self) -> Mapping[str, str]:
        """The packages in the versions that Millrace has."""
        self._python = environment.python(self.name, [f"{name}=={version(name)}" for name in PACKAGES])
        return versions(self._python, PACKAGES)

    def settings(self, run: Run, again: bool) -> dict[str, Any]:
        """Millrace's settings, and its connector."""
        jars, ours = sorted((run.jars / "spark").glob("*.jar")), TriggerSettings()
        return {
            "conf": spark_conf(ours, ours.trigger_heap, CONF)
            | COMPILED
            | OTHER_THAN_OURS
            | {POLL: f"{_default('trigger_poll_ms')}ms"},
            "source_options": {name: text for name, text in SOURCE.items() if name != _START},
            "sink_options": SINK,
            "class_path": ":".join(str(jar.absolute()) for jar in jars),
        }


def _default(setting: str) -> int:
    """What trigger-svc takes if nobody says otherwise."""
    return int(TriggerSettings.model_fields[setting].default)
