"""The settings that services share. Each comes from the environment: ``MILLRACE_`` and the field's name.

A field says everything about its setting: its name, default, allowed values and meaning. Errors and
`docs/SETTINGS.md` are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice.allowed_addresses import AllowedAddresses, networks
from millrace_service.access.tls import Trust, trust
from millrace_service.access.token import ServiceToken, find_token
from millrace_service.kafka import KafkaSettings

PREFIX = "MILLRACE_"
# nobody listens at these addresses: how to reach a service that listens everywhere
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
_BROKER = re.compile(r"[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*")
_URL = re.compile(r"https?://[^\s/]+.*")


def _switch(value: object) -> object:
    """Accepts only 0, 1, true and false: a typing mistake must not switch anything."""
    if isinstance(value, str) and value.lower() not in ("0", "1", "true", "false"):
        raise ValueError("0 or 1")
    return value


Port = Annotated[int, Field(ge=1, le=65535, title="a port")]
Url = Annotated[str, Field(title="an address such as http://127.0.0.1:6041")]
Heap = Annotated[str, Field(pattern=r"^[1-9]\d*[kmgKMG]$", title="a Java heap size, such as 512m or 2g")]
Switch = Annotated[bool, BeforeValidator(_switch)]


class Addresses(KafkaSettings):
    """Where the parts of a stack are and how they recognise each other: read by its services and by the
    command line that starts them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        validate_default=True,
        allow_inf_nan=False,
    )

    broker: str = Field(
        default="127.0.0.1:19092", title="host:port[,host:port…]", description="Kafka's address."
    )
    data_dir: Path = Field(
        default=Path(".millrace"),
        description="Folder for everything a service keeps: the broker's log, tables, checkpoints.",
    )
    jars_dir: Path = Field(
        default=Path(".jars"), description="Folder with the jars of Spark's Kafka connector and the broker."
    )
    gateway_port: Port = Field(default=6041, description="Port of api-gateway.")
    calc_port: Port = Field(default=6051, description="Port of calc-svc.")
    notify_port: Port = Field(default=6061, description="Port of notify-svc.")
    trigger_port: Port = Field(default=6071, description="Port of trigger-svc.")
    service_token: SecretStr = Field(
        default=SecretStr(""),
        description="Secret that services show each other (docs/SECURITY.md); when empty, the one in the "
        "file.",
    )
    service_token_file: str = Field(
        default="",
        description="File that contains it; when empty, `service-token` in MILLRACE_DATA_DIR, which is "
        "created at the first start.",
    )
    notify_allow: str = Field(
        default="",
        title="networks, such as 10.0.0.0/8, ::1/128",
        description="Networks that addresses of NOTIFY may be in although they are private, loopback or "
        "link-local; when empty, none, and in a stack that `millrace up` starts, loopback and private "
        "ones.",
    )
    tls_certificate: str = Field(
        default="",
        description="PEM file of the certificate, and of those between it and its authority, with which all "
        "services answer over https and wss; when empty, they do not use TLS.",
    )
    tls_key: str = Field(default="", description="PEM file of the certificate's key.")
    tls_ca: str = Field(
        default="",
        description="PEM file of additional authorities that services, the command line and the conformance "
        "runner trust when they talk to services.",
    )

    @property
    def tls_pair(self) -> tuple[str, str] | None:
        """Certificate and key; None: plain."""
        return (self.tls_certificate, self.tls_key) if self.tls_certificate else None

    @property
    def trust(self) -> Trust:
        """Whom clients of services trust."""
        return trust(self.tls_ca)

    @property
    def token(self) -> ServiceToken:
        """The service token; :raises MillraceError: INVALID_VALUE if it cannot be used."""
        return find_token(self.service_token.get_secret_value(), self.service_token_file, self.data_dir)

    @field_validator("broker")
    @classmethod
    def _broker(cls, address: str) -> str:
        if not _BROKER.fullmatch(address):
            raise ValueError
        return address

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("both MILLRACE_TLS_CERTIFICATE and MILLRACE_TLS_KEY must be set, or neither")
        return self

    @field_validator("notify_networks", "notify_allow", check_fields=False)
    @classmethod
    def _networks(cls, text: str) -> str:
        try:
            networks(text)
        except ValueError:
            raise ValueError from None
        return text


class ServiceSettings(Addresses):
    """What every service needs to know."""

    host: str = Field(default="127.0.0.1", description="Address that the services listen on.")
    gateway_url: Url = Field(
        default="",
        description="Address at which others reach api-gateway; when empty, made from its host and port.",
    )
    calc_url: Url = Field(
        default="",
        description="Address at which others reach calc-svc; when empty, made from its host and port.",
    )
    notify_url: Url = Field(
        default="",
        description="Address at which others reach notify-svc; when empty, made from its host and port.",
    )
    trigger_url: Url = Field(
        default="",
        description="Address at which others reach trigger-svc; when empty, made from its host and port.",
    )
    notify_networks: str = Field(
        default="",
        title="networks, such as 10.0.0.0/8, ::1/128",
        description="Networks that addresses of NOTIFY may be in; when empty, any.",
    )
    slots: int = Field(
        default=2,
        ge=1,
        le=4096,
        description="Number of slots, into which the trigger's work is divided; at most so many cores share "
        "it. It cannot be changed once a deployment has state.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The lowest severity that is logged."
    )
    stall_seconds: float = Field(
        default=30,
        gt=0,
        le=3600,
        description="After how many seconds without progress a part that has work counts as stalled: its "
        "service is then not ready, and SHOW STREAMS says so.",
    )
    trace: float = Field(
        default=0,
        ge=0,
        le=1,
        description="Share of the messages with rows that are traced (docs/TRACING.md); 0: tracing is off, "
        "1: all are traced.",
    )
    trace_endpoint: Url = Field(
        default="",
        description="Where spans are sent, by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; when "
        "empty, they are written to files in `traces` below MILLRACE_DATA_DIR.",
    )
    stop_seconds: float = Field(
        default=10,
        ge=0,
        le=300,
        description="How long a stop waits for requests and work in progress, in seconds.",
    )

    @model_validator(mode="before")
    @classmethod
    def _upper_level(cls, values: dict[str, Any]) -> dict[str, Any]:
        level = values.get("log_level")
        return values | {"log_level": level.upper()} if isinstance(level, str) else values

    @property
    def reach(self) -> AllowedAddresses:
        """Where notifications may go."""
        return AllowedAddresses(self.notify_networks, self.notify_allow)

    @field_validator("gateway_url", "calc_url", "notify_url", "trigger_url", "trace_endpoint")
    @classmethod
    def _url(cls, url: str) -> str:
        if url and not _URL.fullmatch(url):
            raise ValueError
        return url

    @model_validator(mode="after")
    def _urls(self) -> Self:
        reached = _ANYWHERE.get(self.host, self.host)
        if ":" in reached:
            reached = f"[{reached}]"
        scheme = "https" if self.tls_pair else "http"
        for name in ("gateway", "calc", "notify", "trigger"):
            if not getattr(self, f"{name}_url"):
                # the model is frozen for everyone else
                object.__setattr__(
                    self, f"{name}_url", f"{scheme}://{reached}:{getattr(self, f'{name}_port')}"
                )
        return self


Settings = TypeVar("Settings", bound=BaseSettings)


def load_settings(kind: type[Settings], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings from the environment, or only from these variables.

    :raises MillraceError: INVALID_VALUE, which says which variable is wrong, its value, and what it must be.
    """
    try:
        if environment is None:
            return kind()
        ignored = ("",) if kind.model_config.get("env_ignore_empty") else ()
        given: dict[str, Any] = {
            name: environment[variable_of(name)]
            for name in kind.model_fields
            if environment.get(variable_of(name)) not in (None, *ignored)
        }
        return kind(_env_prefix="\0", **given)  # no variable has such a name
    except ValidationError as error:
        found = [_fault(kind, one) for one in error.errors()]
        raise MillraceError(ErrorCode.INVALID_VALUE, "; ".join(found)) from error


def variable_of(name: str) -> str:
    """The environment variable of the setting ``name``."""
    return f"{PREFIX}{name.upper()}"


def wanted(field: FieldInfo) -> str:
    """The allowed values of a setting: ``a port from 1 to 65535``; empty for any text. The noun is
    the field's title."""
    if get_origin(field.annotation) is Literal:
        return _either([str(choice) for choice in get_args(field.annotation)])
    if field.annotation is bool:
        return "0 or 1"
    noun = {int: "a whole number", float: "a number"}.get(field.annotation or str)
    if noun is None:
        return field.title or ""
    bounds = {
        bound: getattr(one, bound) for one in field.metadata for bound in ("gt", "ge", "le")
        if hasattr(one, bound)
    }  # fmt: skip
    return (field.title or noun) + _within(**bounds)


def _within(gt: float | None = None, ge: float | None = None, le: float | None = None) -> str:
    least = "" if gt is None else f" above {gt}"
    if le is None:
        return least if ge is None else f" of at least {ge}"
    return f"{least}, at most {le}" if ge is None else f" from {ge} to {le}"


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _fault(kind: type[BaseSettings], error: Any) -> str:
    """The error in one sentence. If a validator of ours raised it, its text may say what the value
    must be."""
    if not error["loc"]:  # an error about several settings together
        return str(error["ctx"]["error"])
    name = str(error["loc"][0])
    field = kind.model_fields[name]
    said = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
    must = said or wanted(field) or error["msg"]
    value = "" if field.annotation is SecretStr else f", not '{error['input']}'"
    return f"{variable_of(name)} must be {must}{value}"


def settings_table(kind: type[BaseSettings], base: type[BaseSettings] | None = None) -> str:
    """The settings of ``kind``, without those of ``base``, as a Markdown table."""
    lines = ["| variable | default | allowed values | meaning |", "|---|---|---|---|"]
    for name, field in kind.model_fields.items():
        if base is None or name not in base.model_fields:
            cells = [f"`{variable_of(name)}`", _default(field.default), wanted(field)]
            lines.append(f"| {' | '.join(cells)} | {field.description} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    text = "" if value is None else str(int(value) if isinstance(value, bool) else value)
    return f"`{text}`" if text else ""
