"""The settings that only api-gateway has."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from millrace_core.errors import MillraceError
from millrace_core.timeline.calendar import zone
from millrace_service import ServiceSettings, read_secret


class GatewaySettings(ServiceSettings):
    """The descriptions are the documentation."""

    iotdb_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port at which IoTDB's REST v2 answers as well (IoTDB's own is 18080). 0: none.",
    )
    iotdb_rpc_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port at which IoTDB's RPC answers (IoTDB's own is 6667): its Python sessions, JDBC and "
        "command line. 0: none. Needs the package apache-iotdb (`api-gateway[iotdb]`).",
    )
    wal_partitions: int = Field(4, ge=1, le=256, description="Partitions of a new super table's WAL topic.")
    root_password: SecretStr = Field(
        SecretStr("taosdata"), description="Password that the user root gets at the very first start."
    )
    root_password_file: str = Field(
        "", description="File that holds this password, such as a mounted secret."
    )
    allow_default_password: bool = Field(
        False,
        description="Start even if root has its well-known password and the service listens beyond loopback.",
    )
    timezone: str = Field(
        "UTC",
        title="the name of a time zone, such as Europe/Berlin",
        description="Time zone of a session that names none, and of the midnights of PERIOD and SLIDING.",
    )
    accept_seconds: float = Field(
        10,
        ge=0,
        description="Seconds that CREATE and START STREAM, and DROP of a table, wait for trigger-svc; they "
        "answer OK even if it is away.",
    )
    apply_seconds: float = Field(
        30,
        ge=0,
        description="How long STOP and DROP STREAM wait for trigger-svc before they answer with TIMEOUT.",
    )
    rest_seconds: float = Field(
        180,
        ge=0,
        description="How long the empty WAL topic of a dropped table stays before it is deleted. At least as "
        "long as consumers keep what they know of a topic: one made anew sooner confuses them.",
    )
    trim_seconds: float = Field(60, gt=0, description="Seconds between two looks at what topics may forget.")
    keep_consumed_seconds: int = Field(
        7 * 86_400,
        ge=60,
        description="The longest time that internal topics keep what was consumed; most keep it for less.",
    )
    query_seconds: float = Field(
        60, gt=0, description="How long a query of a user may take, waiting included, in seconds."
    )
    user_queries: int = Field(
        16, ge=1, description="Queries that one user may have under way at the same time."
    )
    body_bytes: int = Field(
        64_000_000,
        ge=1024,
        description="The longest SQL text that /rest/sql takes, and frame of IoTDB's RPC, in bytes.",
    )
    cq_threads: int = Field(
        2,
        ge=1,
        le=64,
        description="Continuous queries of IoTDB that run at the same time (IoTDB's "
        "continuous_query_submit_thread_count).",
    )
    cq_least_every_ms: int = Field(
        1000,
        ge=1,
        description="The shortest EVERY of a continuous query, in milliseconds (IoTDB's "
        "continuous_query_min_every_interval_in_ms).",
    )
    threads: int = Field(64, ge=4, le=1024, description="Requests that are worked on at the same time.")

    trigger_dir: Path | None = Field(
        None,
        title="a folder",
        description="Folder of the Python packages with IoTDB trigger classes; `triggers` in the data folder "
        "when empty. Classes come from nowhere else.",
    )
    trigger_call_seconds: float = Field(
        10, gt=0, le=600, description="How long one call of a trigger's class may take, in seconds."
    )
    trigger_memory_mb: int = Field(
        256,
        ge=16,
        le=65_536,
        description="Megabytes of address space that the process of a trigger may take for its class.",
    )
    trigger_wait_seconds: float = Field(
        60,
        gt=0,
        le=600,
        description="How long an insert waits for AFTER triggers; then a PESSIMISTIC one fails it (1302).",
    )
    trigger_tries: int = Field(
        3,
        ge=1,
        le=100,
        description="How often the process of a trigger is started before a firing fails because it does not "
        "run (IoTDB's stateful_trigger_retry_num_when_not_found).",
    )

    @property
    def first_password(self) -> str:
        """root's password at the very first start. :raises MillraceError: for a file that cannot be read."""
        if not self.root_password_file:
            return self.root_password.get_secret_value()
        return read_secret("MILLRACE_ROOT_PASSWORD_FILE", self.root_password_file)

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @field_validator("timezone")
    @classmethod
    def _zone(cls, name: str) -> str:
        try:
            zone(name)
        except MillraceError:
            raise ValueError from None
        return name
