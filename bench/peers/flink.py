"""PyFlink's Table API: one job of SQL inserts over its Kafka connector, in a local cluster."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from bench.peers import environment
from bench.peers.peer import ProgramPeer, versions
from bench.peers.run import HEAP, Run, Topics
from bench.stage import wait
from millrace_wal import KafkaLog

CONNECTOR = ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
# a dependency of Flink's Python imports pkg_resources, which newer setuptools no longer have
SETTLE_SECONDS = 300.0
REQUIREMENTS = ("apache-flink==2.2.1", "setuptools<81")


class Flink(ProgramPeer):
    """All streams are one job, so those of one table share its source."""

    name = "flink"

    def __init__(self) -> None:
        super().__init__()
        self._jar = Path()

    def prepare(self) -> Mapping[str, str]:
        """The packages, and the connector's jar."""
        self._python = environment.python(self.name, REQUIREMENTS)
        self._jar = environment.jar(*CONNECTOR)
        return versions(self._python, ["apache-flink"]) | {CONNECTOR[1]: CONNECTOR[2]}

    def settings(self, run: Run, again: bool) -> dict[str, Any]:
        """The connector, and where checkpoints go to; ``again``: the newest whole one to start from."""
        checkpoints = run.folder / "checkpoints"
        whole = checkpoints.glob("*/chk-*/_metadata") if again else ()
        newest = max(whole, key=_written, default=None)
        return {
            "jar": str(self._jar),
            "checkpoints": str(checkpoints),
            "restore": None if newest is None else str(newest.parent),
        }

    def settle(self, run: Run, topics: Topics) -> None:
        """A source does not wait for a partition that it has read nothing of: if it read much of one before,
        the rows of the other would be late. What it has read it commits with each checkpoint."""
        admin = AdminClient({"bootstrap.servers": run.broker})
        with KafkaLog(run.broker, "settle") as log:
            for number, source in enumerate(topics.sources[: run.load.streams]):
                written = sum(log.end_offsets(source).values())
                read = partial(self._read, admin, f"flink-{number}", written)
                wait(read, SETTLE_SECONDS, f"{self.name} reading {source}")

    def _read(self, admin: AdminClient, group: str, messages: int) -> bool:
        """Whether a source's consumer group has read this many. :raises BenchError: if Flink has ended."""
        self.processes()
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        try:
            read = [int(one.offset) for one in asked.result(30).topic_partitions]
        except KafkaException:  # a young broker does not know its groups yet
            return False
        return sum(max(offset, 0) for offset in read) >= messages

    def environment(self) -> Mapping[str, str]:
        """The heap of the Java process that Python starts."""
        return {"JVM_ARGS": f"-Xmx{HEAP}", "PYFLINK_PYTHON": str(self._python)}


def _written(path: Path) -> float:
    return path.stat().st_mtime
