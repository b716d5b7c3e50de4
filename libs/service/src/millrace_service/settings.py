"""The settings that services share. Each comes from the environment: ``MILLRACE_`` and the field's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from millrace_core.errors import ErrorCode, MillraceError

PREFIX = "MILLRACE_"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class ServiceSettings(BaseSettings):
    """What every service needs to know. The descriptions are its documentation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore", validate_default=True
    )

    broker: str = Field(default="127.0.0.1:19092", description="Kafka's address, host:port[,host:port…].")
    data_dir: Path = Field(
        default=Path(".millrace"),
        description="Folder for everything a service keeps: the broker's log, tables, checkpoints.",
    )
    jars_dir: Path = Field(
        default=Path(".jars"), description="Folder with the jars of Spark's Kafka connector and the broker."
    )
    host: str = Field(default="127.0.0.1", description="Address that the services listen on.")
    gateway_port: int = Field(default=6041, ge=1, le=65535, description="Port of api-gateway.")
    calc_port: int = Field(default=6051, ge=1, le=65535, description="Port of calc-svc.")
    notify_port: int = Field(default=6061, ge=1, le=65535, description="Port of notify-svc.")
    trigger_port: int = Field(default=6071, ge=1, le=65535, description="Port of trigger-svc.")
    gateway_url: str = Field(
        default="", description="Where others reach api-gateway; from host and port when empty."
    )
    calc_url: str = Field(
        default="", description="Where others reach calc-svc; from host and port when empty."
    )
    notify_url: str = Field(
        default="", description="Where others reach notify-svc; from host and port when empty."
    )
    trigger_url: str = Field(
        default="", description="Where others reach trigger-svc; from host and port when empty."
    )
    slots: int = Field(
        default=8,
        ge=1,
        le=4096,
        description="Virtual partitions of trigger state. Fixed once a deployment has state.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least severity that is logged."
    )
    stall_seconds: float = Field(
        default=30,
        gt=0,
        le=3600,
        description="What has not moved for so long though something waits for it is stalled: the service "
        "is not ready, and SHOW STREAMS says so.",
    )
    stop_seconds: float = Field(
        default=10,
        ge=0,
        le=300,
        description="How long a stop waits for running requests and work, in seconds.",
    )

    @model_validator(mode="before")
    @classmethod
    def _upper_level(cls, values: dict[str, Any]) -> dict[str, Any]:
        level = values.get("log_level")
        return values | {"log_level": level.upper()} if isinstance(level, str) else values

    @model_validator(mode="after")
    def _urls(self) -> Self:
        reached = _ANYWHERE.get(self.host, self.host)
        for name in ("gateway", "calc", "notify", "trigger"):
            if not getattr(self, f"{name}_url"):
                # the model is frozen for everyone else
                object.__setattr__(self, f"{name}_url", f"http://{reached}:{getattr(self, f'{name}_port')}")
        return self


Settings = TypeVar("Settings", bound=ServiceSettings)


def load_settings(kind: type[Settings]) -> Settings:
    """The settings from the environment. MillraceError INVALID_VALUE names the variable that is wrong."""
    try:
        return kind()
    except ValidationError as error:
        first = error.errors()[0]
        variable = PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        raise MillraceError(
            ErrorCode.INVALID_VALUE, f"{variable} = {first['input']!r}: {first['msg']}"
        ) from error


def settings_table(kind: type[ServiceSettings]) -> str:
    """The settings of a service as a Markdown table: variable, default, meaning."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        default = "" if field.default in ("", None) else f"`{field.default}`"
        lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"
