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
        description="Additional port for IoTDB's REST v2 (IoTDB's own is 18080). 0: none.",
    )
    iotdb_rpc_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port for IoTDB's RPC (IoTDB's own is 6667), which its Python sessions, JDBC and command "
        "line use. 0: none. Requires the package apache-iotdb (`api-gateway[iotdb]`).",
    )
    wal_partitions: int = Field(
        1,
        ge=1,
        le=256,
        description="Partitions of a new super table's WAL topic; a table keeps its number. Several let "
        "brokers share a table, but rows that are written together then take several requests.",
    )
    root_password: SecretStr = Field(
        SecretStr("taosdata"), description="Password that the user root is given at the very first start."
    )
    root_password_file: str = Field(
        "", description="File that contains this password, such as a mounted secret."
    )
    allow_default_password: bool = Field(
        False,
        description="Start even if root still has its well-known password and the service does not listen on "
        "loopback alone.",
    )
    timezone: str = Field(
        "UTC",
        title="the name of a time zone, such as Europe/Berlin",
        description="Time zone of sessions that name none, and of the midnights from which PERIOD and "
        "SLIDING count.",
    )
    accept_seconds: float = Field(
        10,
        ge=0,
        description="How long CREATE STREAM, START STREAM and statements that drop tables wait for "
        "trigger-svc, in seconds; they answer OK even if it is down.",
    )
    apply_seconds: float = Field(
        30,
        ge=0,
        description="How long STOP and DROP STREAM wait for trigger-svc before they answer with TIMEOUT, in "
        "seconds.",
    )
    rest_seconds: float = Field(
        180,
        ge=0,
        description="How long the empty WAL topic of a dropped table is kept before it is deleted, in "
        "seconds. It must be at least as long as consumers remember a topic: a new one of the same name "
        "would confuse them before then.",
    )
    trim_seconds: float = Field(
        60, gt=0, description="Seconds between two checks of what topics no longer need to keep."
    )
    keep_consumed_seconds: int = Field(
        7 * 86_400,
        ge=60,
        description="The longest time that internal topics keep records that have been consumed, in seconds; "
        "most topics keep them for less.",
    )
    query_seconds: float = Field(
        60,
        gt=0,
        description="How long a user's query may take, including the time that it waits, in seconds.",
    )
    user_queries: int = Field(
        16, ge=1, description="Queries that one user may have in progress at the same time."
    )
    body_bytes: int = Field(
        64_000_000,
        ge=1024,
        description="The longest SQL text that /rest/sql accepts, and the longest frame of IoTDB's RPC, in "
        "bytes.",
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
    threads: int = Field(64, ge=4, le=1024, description="Requests that are handled at the same time.")

    trigger_dir: Path | None = Field(
        None,
        title="a folder",
        description="Folder of the Python modules with IoTDB trigger classes; when empty, `triggers` in the "
        "data folder. Classes are loaded from nowhere else.",
    )
    trigger_call_seconds: float = Field(
        10, gt=0, le=600, description="How long one call of a trigger's class may take, in seconds."
    )
    trigger_memory_mb: int = Field(
        256,
        ge=16,
        le=65_536,
        description="Megabytes of address space that a trigger's process may use for its class.",
    )
    trigger_wait_seconds: float = Field(
        60,
        gt=0,
        le=600,
        description="How long an insert waits for AFTER triggers, in seconds; after that, a PESSIMISTIC one "
        "makes it fail (1302).",
    )
    trigger_tries: int = Field(
        3,
        ge=1,
        le=100,
        description="How many times a trigger's process is started before a firing fails because it is not "
        "running (IoTDB's stateful_trigger_retry_num_when_not_found).",
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
