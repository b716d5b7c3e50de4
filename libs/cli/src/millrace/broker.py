"""A real Apache Kafka in a process of its own: one KRaft node on loopback, with settings for one machine."""

from __future__ import annotations

import base64
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from millrace import kafka_users, processes
from millrace.java import Java
from millrace.processes import Program, RunFolder
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import KafkaAccess

NAME = "broker"
PLAIN = KafkaAccess()
HEAP_MB = 384
# A broker on one machine waits more than it computes. The optimising compiler took 40 % of its time in the
# first minutes, which other processes on these cores then lacked (decision 0028).
FLAGS = (
    "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true",
    "-XX:-UsePerfData",  # nobody reads it, and it is sampled twenty times a second
)  # fmt: skip
READY_SECONDS = 90.0
_MB = 1 << 20

# Everything except addresses and folders. There is one node: so one replica and small internal topics.
# There are many small topics: so small index files (each segment maps two). The heap is small: so is
# the cleaner buffer.
SETTINGS: dict[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    # commits come dozens of times a second: compacted every megabyte, not every hundred, and every ten
    # minutes (our topics say themselves how long a segment lasts)
    "offsets.topic.segment.bytes": _MB,
    "log.roll.ms": 600_000,
    # a lone controller has nobody to tell that it is there: by default it writes that down twice a second
    "metadata.max.idle.interval.ms": 0,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.coordinator.threads": 1,  # each looks five times a second whether there is something to do
    "broker.session.timeout.ms": 3_000,  # how long a restarted broker waits for its old session to expire
    "broker.heartbeat.interval.ms": 1_000,
    "message.max.bytes": 16 * _MB,
    "log.segment.bytes": 256 * _MB,
    "log.index.size.max.bytes": _MB,
    "log.segment.delete.delay.ms": 1_000,
    "log.retention.ms": -1,
    "log.retention.check.interval.ms": 30_000,
    "offsets.retention.minutes": 525_600,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 16 * _MB,
    "num.network.threads": 2,
    "num.io.threads": 4,
}


@dataclass(frozen=True)
class Broker:
    """The embedded broker of one stack: data below ``data_dir/broker``, clients at ``127.0.0.1:port``.

    ``access``: how services connect to it; ``certificate``: files of its certificate and key, for TLS.
    """

    java: Java
    jars_dir: Path
    data_dir: Path
    port: int
    access: KafkaAccess = PLAIN
    certificate: tuple[str, str] | None = None

    @property
    def address(self) -> str:
        """What clients name as bootstrap server."""
        return f"127.0.0.1:{self.port}"

    @property
    def _folder(self) -> Path:
        return self.data_dir / "broker"

    @property
    def _config(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _users(self) -> Path:
        return (self._folder / "users.jaas").resolve()

    @property
    def _logs(self) -> Path:
        return self._folder / "topics"

    def _command(self, *arguments: str, heap_mb: int = HEAP_MB) -> list[str]:
        classes = ("-cp", f"{self.jars_dir.resolve()}/broker/*")
        # everybody can read a command line, so the passwords are in the file that it names
        users = (f"-Djava.security.auth.login.config={self._users}",) if self.access.sasl else ()
        return [str(self.java.program), f"-Xmx{heap_mb}m", *FLAGS, *users, *classes, *arguments]

    def _write_config(self) -> None:
        """Writes the settings. The controller's port is nobody else's business: any free one."""
        controller, keystore = processes.free_port(), (self._folder / "keystore.pem").resolve()
        self._logs.mkdir(parents=True, exist_ok=True)
        self._config.write_text(properties(self.port, controller, self._logs, self.access, keystore))
        if self.access.sasl:
            others = {kafka_users.PRODUCER: kafka_users.password_of(kafka_users.PRODUCER, self.data_dir)}
            text = kafka_users.jaas(self.access.user, self.access.password, others)
            kafka_users.rewrite(self._users, text)
        if self.access.tls:
            if self.certificate is None:
                raise MillraceError(
                    ErrorCode.INVALID_VALUE,
                    f"MILLRACE_KAFKA_PROTOCOL = {self.access.protocol}: the broker has no certificate: set "
                    "MILLRACE_TLS=1, or MILLRACE_TLS_CERTIFICATE and MILLRACE_TLS_KEY",
                )
            kafka_users.write_keystore(keystore, *self.certificate)

    def _format(self) -> None:
        """Prepares the log folder, once."""
        if (self._logs / "meta.properties").exists():
            return
        arguments = ("kafka.tools.StorageTool", "format", "-t", cluster_id(), "-c", str(self._config))
        done = subprocess.run(
            self._command(*arguments, heap_mb=128), capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise MillraceError(ErrorCode.UNAVAILABLE, f"the broker's folder could not be prepared: {said}")

    def start(self) -> None:
        """Starts the broker unless it runs, and returns once it answers.

        ``MillraceError`` UNAVAILABLE if the port is taken or it ends at once, TIMEOUT if it does not answer.
        """
        place = RunFolder(self.data_dir.resolve())
        if processes.running(place, NAME) is None:
            if not any(self.jars_dir.glob("broker/*.jar")):
                raise MillraceError(
                    ErrorCode.UNAVAILABLE, f"there are no broker jars in {self.jars_dir}: run `make jars`"
                )
            if processes.port_taken("127.0.0.1", self.port):
                raise MillraceError(
                    ErrorCode.UNAVAILABLE,
                    f"port {self.port} of the broker is in use: free it or set MILLRACE_BROKER",
                )
            self._write_config()
            self._format()
            processes.start(place, Program(NAME, self._command("kafka.Kafka", str(self._config))))
        processes.wait_ready(place, NAME, self.answers, READY_SECONDS)
        if self.access.sasl:
            kafka_users.let_produce(self.address, self.access)

    def stop(self) -> None:
        """Stops the broker; topics stay on disk."""
        processes.stop(RunFolder(self.data_dir.resolve()), NAME)

    def answers(self) -> bool:
        """Whether the broker answers a metadata request."""
        return answers(self.port, self.access)


def answers(port: int, access: KafkaAccess = PLAIN) -> bool:
    """Whether a broker at this loopback port answers a metadata request."""
    if not processes.port_taken("127.0.0.1", port):
        return False  # librdkafka would wait a second before it tries again
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **access.librdkafka})
    try:
        return bool(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def cluster_id() -> str:
    """A new cluster id: a random UUID as 22 characters of base64, never one that looks like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def properties(
    port: int, controller_port: int, logs: Path, access: KafkaAccess = PLAIN, keystore: Path = Path()
) -> str:
    """The broker's ``server.properties``: both listeners on loopback only. ``keystore``: file with key and
    certificate, for TLS."""
    listener = "PLAINTEXT" if access.protocol == "PLAINTEXT" else kafka_users.LISTENER
    own: dict[str, object] = {
        "listeners": f"{listener}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"{listener}://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": logs,
    }
    if access.protocol != "PLAINTEXT":
        own |= kafka_users.properties(access, keystore)
    return "".join(f"{name}={value}\n" for name, value in (SETTINGS | own).items())
