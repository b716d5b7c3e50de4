"""Where one stack lives: its folders and ports, from the same ``MILLRACE_`` variables its services read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from millrace.processes import free_port
from millrace_core.errors import ErrorCode, MillraceError

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Service:
    """One row of the table of services: its name, Python module, default port and the setting that moves
    it; how many seconds it may take until it is ready."""

    name: str
    module: str
    port: int
    variable: str
    ready_seconds: float


# Spark compiles and warms up before trigger-svc and calc-svc say that they are ready.
SERVICES: tuple[Service, ...] = (
    Service("api-gateway", "api_gateway", 6041, "MILLRACE_GATEWAY_PORT", 90),
    Service("calc-svc", "calc_svc", 6051, "MILLRACE_CALC_PORT", 300),
    Service("notify-svc", "notify_svc", 6061, "MILLRACE_NOTIFY_PORT", 90),
    Service("trigger-svc", "trigger_svc", 6071, "MILLRACE_TRIGGER_PORT", 300),
)
BROKER_PORT = 19092


def service(name: str) -> Service:
    """The service of this name; ``MillraceError`` (INVALID_VALUE) if there is none."""
    for one in SERVICES:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in SERVICES)
    raise MillraceError(ErrorCode.INVALID_VALUE, f"there is no service {name}: the services are {names}")


def project_root() -> Path:
    """The folder that holds ``ivy.xml``: the working folder or one above it, else that of the sources."""
    for start in (Path.cwd(), Path(__file__)):
        for folder in (start, *start.parents):
            if (folder / "ivy.xml").is_file():
                return folder
    raise MillraceError(
        ErrorCode.INVALID_VALUE, "no ivy.xml is here or above: run this in the project's folder"
    )


@dataclass(frozen=True)
class StackSettings:
    """Folders and ports of one stack. Two stacks with other folders and ports run side by side."""

    data_dir: Path
    jars_dir: Path
    broker_port: int
    ports: Mapping[str, int]  # service name -> port
    supervise: bool = False  # whether parts that crash are started again

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> StackSettings:
        """From ``MILLRACE_DATA_DIR``, ``_JARS_DIR``, ``_BROKER``, ``_SUPERVISE`` and the services' ports;
        else the defaults, below the project's folder.

        :raises MillraceError: INVALID_VALUE names a bad variable.
        """
        env = os.environ if environment is None else environment
        root = project_root()
        return StackSettings(
            data_dir=(root / env.get("MILLRACE_DATA_DIR", ".millrace")).resolve(),
            jars_dir=(root / env.get("MILLRACE_JARS_DIR", ".jars")).resolve(),
            broker_port=_broker_port(env.get("MILLRACE_BROKER", f"{HOST}:{BROKER_PORT}")),
            ports={one.name: _port(one.variable, env.get(one.variable, str(one.port))) for one in SERVICES},
            supervise=_switch("MILLRACE_SUPERVISE", env.get("MILLRACE_SUPERVISE", "1")),
        )

    @staticmethod
    def on_free_ports(data_dir: Path, jars_dir: Path) -> StackSettings:
        """A stack of its own, as tests use it."""
        ports = {one.name: free_port() for one in SERVICES}
        return StackSettings(data_dir.resolve(), jars_dir.resolve(), free_port(), ports)

    @property
    def broker(self) -> str:
        """The broker's address, ``host:port``."""
        return f"{HOST}:{self.broker_port}"

    def url(self, name: str) -> str:
        """The base URL of a service."""
        return f"http://{HOST}:{self.ports[name]}"

    def variables(self) -> dict[str, str]:
        """The environment that puts a service, or a client of this module, onto this stack."""
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
        }

    def environment(self, java_home: Path) -> dict[str, str]:
        """What a service's process gets on top of ours: its settings, Spark on this Java, this Python and
        loopback."""
        return self.variables() | {
            "JAVA_HOME": str(java_home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "PYTHONUNBUFFERED": "1",
        }


def _port(variable: str, text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65_536:
        return int(text)
    raise MillraceError(ErrorCode.INVALID_VALUE, f"{variable} must be a port from 1 to 65535, not '{text}'")


def _switch(variable: str, text: str) -> bool:
    if text in ("0", "1"):
        return text == "1"
    raise MillraceError(ErrorCode.INVALID_VALUE, f"{variable} must be 0 or 1, not '{text}'")


def _broker_port(address: str) -> int:
    """The port to start the broker at; its address must be a loopback one."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host not in (HOST, "localhost") or port is None:
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"MILLRACE_BROKER must be {HOST}:<port> for a stack on this machine, not '{address}'",
        )
    return port
