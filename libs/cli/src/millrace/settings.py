"""Where one stack lives: its folders and ports, from the same ``MILLRACE_`` variables its services read."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from millrace import kafka_users
from millrace.certificates import AUTHORITY, CERTIFICATE, KEY
from millrace.processes import free_ports
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice.allowed_addresses import ON_ONE_MACHINE
from millrace_service import (
    Addresses,
    KafkaAccess,
    ServiceToken,
    Switch,
    Trust,
    find_token,
    load_settings,
    read_secret,
    trust,
    variable_of,
)
from millrace_service.kafka import Protocol

HOST = "127.0.0.1"
TLS, ON = "tls", "on"
"""The folder of a stack's own certificate, and the file in it that marks it as in use."""
SPOKEN = "kafka-protocol"
"""The file in a stack's folder that names the protocol of its broker, unless that is PLAINTEXT."""


class CommandSettings(Addresses):
    """What the command line reads. Folders are below the project's folder, unless they are absolute. A
    variable that is set to an empty text is an error here."""

    model_config = SettingsConfigDict(env_ignore_empty=False)

    supervise: Switch = Field(
        default=True, description="Whether parts of the stack that crash are restarted."
    )
    standby: Switch = Field(
        default=False,
        description="Whether the supervisor keeps a second calc-svc and trigger-svc ready, with Spark "
        "started, to take over from one that crashes. They take about 1 GB.",
    )
    notify_allow: str = Field(
        default=ON_ONE_MACHINE,
        title="networks, such as 10.0.0.0/8, ::1/128",
        description="As for the services, but with another default: whoever may send this stack a statement "
        "is on this machine.",
    )
    tls: Switch = Field(
        default=False,
        description="Whether `millrace up` creates an authority and a certificate, in MILLRACE_DATA_DIR, for "
        "services that have none; this holds until `millrace down`.",
    )
    user: str = Field(default="root", description="The user to log in to the gateway as.")
    password: SecretStr = Field(
        default=SecretStr(""),
        description="The password; when empty, the one in the file, or else the one that root is given at "
        "the first start.",
    )
    password_file: str = Field(default="", description="File that contains it.")
    ivy_settings: str = Field(default="", description="An Ivy settings file, for a Maven mirror.")

    @field_validator("broker")
    @classmethod
    def _broker(cls, address: str) -> str:
        """The stack's own broker listens on loopback alone."""
        _broker_port(address)
        return address


@dataclass(frozen=True)
class Service:
    """One row of the table of services: its name, its Python module, the setting of its port, and how many
    seconds it may take to become ready."""

    name: str
    module: str
    setting: str
    ready_seconds: float
    stands_by: bool = False
    """Whether its next process may stand by, because it takes long to start."""

    @property
    def port(self) -> int:
        """The default port, used unless the setting changes it."""
        default: int = Addresses.model_fields[self.setting].default
        return default

    @property
    def variable(self) -> str:
        return variable_of(self.setting)


# Spark compiles and warms up before trigger-svc and calc-svc say that they are ready.
SERVICES: tuple[Service, ...] = (
    Service("api-gateway", "api_gateway", "gateway_port", 90),
    Service("calc-svc", "calc_svc", "calc_port", 300, stands_by=True),
    Service("notify-svc", "notify_svc", "notify_port", 90),
    Service("trigger-svc", "trigger_svc", "trigger_port", 300, stands_by=True),
)


def service(name: str) -> Service:
    """The service of this name; ``MillraceError`` (INVALID_VALUE) if there is none."""
    for one in SERVICES:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in SERVICES)
    raise MillraceError(ErrorCode.INVALID_VALUE, f"there is no service {name}: the services are {names}")


def project_root() -> Path:
    """The folder with ``ivy.xml``: the working folder or one above it, else that of the sources."""
    for start in (Path.cwd(), Path(__file__)):
        for folder in (start, *start.parents):
            if (folder / "ivy.xml").is_file():
                return folder
    raise MillraceError(
        ErrorCode.INVALID_VALUE,
        "there is no ivy.xml in this folder or above it: run this in the project's folder",
    )


@dataclass(frozen=True)
class StackSettings:
    """Folders and ports of one stack. Two stacks with other folders and ports run side by side."""

    data_dir: Path
    jars_dir: Path
    broker_port: int
    ports: Mapping[str, int]  # service name -> port
    supervise: bool = False  # whether parts that crash are started again
    standby: bool = False  # whether the next calc-svc and trigger-svc stand by
    tls: bool = False  # whether the stack has a certificate of its own
    tls_certificate: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    notify_allow: str = ON_ONE_MACHINE  # private networks that NOTIFY may name
    service_token: str = field(default="", repr=False)  # read from the file if empty
    service_token_file: str = ""  # a file below data_dir if empty
    kafka_protocol: Protocol = "PLAINTEXT"
    kafka_user: str = kafka_users.SERVICES
    kafka_password: str = field(default="", repr=False)  # read from the file if empty
    kafka_password_file: str = ""
    kafka_ca: str = ""

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> StackSettings:
        """Read from the environment, or from these variables alone (:class:`CommandSettings`).

        :raises MillraceError: INVALID_VALUE names a bad variable.
        """
        given = load_settings(CommandSettings, environment)
        root = project_root()
        data_dir = (root / given.data_dir).resolve()
        own = not given.tls_certificate and (
            given.tls or ("tls" not in given.model_fields_set and (data_dir / TLS / ON).exists())
        )
        found = StackSettings(
            data_dir=data_dir,
            jars_dir=(root / given.jars_dir).resolve(),
            broker_port=_broker_port(given.broker),
            ports={one.name: getattr(given, one.setting) for one in SERVICES},
            supervise=given.supervise,
            standby=given.standby,
            tls_certificate=given.tls_certificate,
            tls_key=given.tls_key,
            tls_ca=given.tls_ca,
            notify_allow=given.notify_allow,
            service_token=given.service_token.get_secret_value(),
            service_token_file=given.service_token_file,
            kafka_user=given.kafka_user,
            kafka_password=given.kafka_password.get_secret_value(),
            kafka_password_file=given.kafka_password_file,
            kafka_ca=given.kafka_ca,
        )
        found = found.with_own_certificate() if own else found
        protocol = given.kafka_protocol
        if "kafka_protocol" not in given.model_fields_set and (data_dir / SPOKEN).exists():
            protocol = cast(Protocol, (data_dir / SPOKEN).read_text())
        return found.with_kafka(protocol)

    def with_own_certificate(self) -> StackSettings:
        """The same stack over TLS, with a certificate that it makes itself."""
        folder = self.data_dir / TLS
        certificate, key, authority = (str(folder / name) for name in (CERTIFICATE, KEY, AUTHORITY))
        return replace(self, tls=True, tls_certificate=certificate, tls_key=key, tls_ca=authority)

    def with_kafka(self, protocol: Protocol) -> StackSettings:
        """The same stack with a broker that speaks this protocol. Unless settings say otherwise, its
        users get passwords that nobody else knows, and its clients trust the same authority as clients
        of the services."""
        sasl, tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
        own = str(self.data_dir / kafka_users.FILES[kafka_users.SERVICES])
        return replace(
            self,
            kafka_protocol=protocol,
            kafka_password_file=self.kafka_password_file or (own if sasl and not self.kafka_password else ""),
            kafka_ca=self.kafka_ca or (self.tls_ca if tls else ""),
        )

    @staticmethod
    def on_free_ports(data_dir: Path, jars_dir: Path) -> StackSettings:
        """A stack of its own on free ports, as tests use it."""
        broker, *others = free_ports(1 + len(SERVICES))
        ports = {one.name: port for one, port in zip(SERVICES, others, strict=True)}
        return StackSettings(data_dir.resolve(), jars_dir.resolve(), broker, ports)

    @property
    def broker(self) -> str:
        """The broker's address, ``host:port``."""
        return f"{HOST}:{self.broker_port}"

    @property
    def connection(self) -> dict[str, str]:
        """The broker's address and who connects to it, as librdkafka's settings."""
        return {"bootstrap.servers": self.broker, **self.kafka.librdkafka}

    def url(self, name: str) -> str:
        """The base URL of a service."""
        return f"{'https' if self.tls_certificate else 'http'}://{HOST}:{self.ports[name]}"

    @property
    def trust(self) -> Trust:
        """Which authorities the stack's clients trust."""
        return trust(self.tls_ca)

    @property
    def tls_folder(self) -> Path:
        """Where the stack's own certificate lies."""
        return self.data_dir / TLS

    @property
    def token(self) -> ServiceToken:
        """The service token, made if there is none; :raises MillraceError: if it cannot be used."""
        return find_token(self.service_token, self.service_token_file, self.data_dir)

    @property
    def kafka(self) -> KafkaAccess:
        """How services and this command line connect to the broker. A password of the stack's own is made if
        it does not exist yet. :raises MillraceError: INVALID_VALUE for a file that cannot be used."""
        access = KafkaAccess(self.kafka_protocol, "PLAIN", self.kafka_user, ca=self.kafka_ca)
        return replace(access, password=self._kafka_password()) if access.sasl else access

    def _kafka_password(self) -> str:
        if self.kafka_password:
            return self.kafka_password
        if self.kafka_password_file == str(self.data_dir / kafka_users.FILES[kafka_users.SERVICES]):
            return kafka_users.password_of(kafka_users.SERVICES, self.data_dir)
        return read_secret("MILLRACE_KAFKA_PASSWORD_FILE", self.kafka_password_file)

    def variables(self) -> dict[str, str]:
        """The environment that connects a service, or a client of this module, to this stack."""
        ports = {one.variable: str(self.ports[one.name]) for one in SERVICES}
        return ports | {
            "MILLRACE_GATEWAY_URL": self.url("api-gateway"),
            "MILLRACE_CALC_URL": self.url("calc-svc"),
            "MILLRACE_NOTIFY_URL": self.url("notify-svc"),
            "MILLRACE_TRIGGER_URL": self.url("trigger-svc"),
            "MILLRACE_BROKER": self.broker,
            "MILLRACE_HOST": HOST,
            "MILLRACE_DATA_DIR": str(self.data_dir),
            "MILLRACE_JARS_DIR": str(self.jars_dir),
            "MILLRACE_SUPERVISE": str(int(self.supervise)),
            "MILLRACE_STANDBY": str(int(self.standby)),
            "MILLRACE_TLS": str(int(self.tls)),
            "MILLRACE_TLS_CERTIFICATE": self.tls_certificate,
            "MILLRACE_TLS_KEY": self.tls_key,
            "MILLRACE_TLS_CA": self.tls_ca,
            "MILLRACE_NOTIFY_ALLOW": self.notify_allow,
            "MILLRACE_SERVICE_TOKEN": self.service_token,
            "MILLRACE_SERVICE_TOKEN_FILE": self.service_token_file,
            "MILLRACE_KAFKA_PROTOCOL": self.kafka_protocol,
            "MILLRACE_KAFKA_MECHANISM": "PLAIN",
            "MILLRACE_KAFKA_USER": self.kafka_user,
            "MILLRACE_KAFKA_PASSWORD": self.kafka_password,
            "MILLRACE_KAFKA_PASSWORD_FILE": self.kafka_password_file,
            "MILLRACE_KAFKA_CA": self.kafka_ca,
        }

    def environment(self, java_home: Path) -> dict[str, str]:
        """What a service's process gets in addition to our environment: its settings, this Java for Spark,
        this Python, and loopback."""
        return self.variables() | {
            "JAVA_HOME": str(java_home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "PYTHONUNBUFFERED": "1",
        }


def _broker_port(address: str) -> int:
    """The port to start the broker on; :raises ValueError: what the address must be."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host not in (HOST, "localhost") or port is None:
        raise ValueError(f"{HOST}:<port> for a stack on this machine")
    return port
