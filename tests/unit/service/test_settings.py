"""Settings come from the environment, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field, SecretStr

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Heap, ServiceSettings, Switch, load_settings, settings_table


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ServiceSettings.model_fields:
        monkeypatch.delenv(f"MILLRACE_{name.upper()}", raising=False)


def test_defaults() -> None:
    settings = load_settings(ServiceSettings)
    assert settings.broker == "127.0.0.1:19092"
    assert settings.data_dir == Path(".millrace")
    assert settings.host == "127.0.0.1"
    assert settings.calc_url == "http://127.0.0.1:6051"
    assert settings.gateway_url == "http://127.0.0.1:6041"


def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CALC_PORT", "7051")
    monkeypatch.setenv("MILLRACE_HOST", "0.0.0.0")
    monkeypatch.setenv("MILLRACE_GATEWAY_URL", "http://gateway:6041")
    monkeypatch.setenv("MILLRACE_LOG_LEVEL", "debug")
    monkeypatch.setenv("MILLRACE_SLOTS", "")
    settings = load_settings(ServiceSettings)
    assert settings.calc_url == "http://127.0.0.1:7051"
    assert settings.gateway_url == "http://gateway:6041"
    assert settings.log_level == "DEBUG"
    assert settings.slots == 2


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MILLRACE_CALC_PORT", "0"), ("MILLRACE_SLOTS", "many"), ("MILLRACE_LOG_LEVEL", "loud")],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(MillraceError, match=variable) as caught:
        load_settings(ServiceSettings)
    assert caught.value.code is ErrorCode.INVALID_VALUE


@pytest.mark.parametrize(("variable", "value", "must"), [
    ("CALC_PORT", "0", "a port from 1 to 65535"),
    ("SLOTS", "1.5", "a whole number from 1 to 4096"),
    ("STALL_SECONDS", "0", "a number above 0, at most 3600"),
    ("STALL_SECONDS", "nan", "a number above 0, at most 3600"),
    ("LOG_LEVEL", "LOUD", "DEBUG, INFO, WARNING or ERROR"),
    ("BROKER", "kafka", "host:port[,host:port…]"),
    ("NOTIFY_NETWORKS", "10.0.0.0/8, here", "networks, such as 10.0.0.0/8, ::1/128"),
    ("NOTIFY_ALLOW", "10.0.0.1/8", "networks, such as 10.0.0.0/8, ::1/128"),
    ("CALC_URL", "calc-svc:6051", "an address such as http://127.0.0.1:6041"),
])  # fmt: skip
def test_a_wrong_value_is_one_sentence(variable: str, value: str, must: str) -> None:
    with pytest.raises(MillraceError) as caught:
        load_settings(ServiceSettings, {f"MILLRACE_{variable}": value})
    assert caught.value.message == f"MILLRACE_{variable} must be {must}, not '{value}'"


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(MillraceError, match=r"MILLRACE_CALC_PORT must be .*; MILLRACE_SLOTS must be "):
        load_settings(ServiceSettings, {"MILLRACE_SLOTS": "0", "MILLRACE_CALC_PORT": "x"})


def test_variables_that_are_handed_over_are_the_only_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CALC_PORT", "x")
    assert load_settings(ServiceSettings, {"MILLRACE_SLOTS": "3", "MILLRACE_HOST": ""}).slots == 3


class Odd(ServiceSettings):
    """Settings of kinds that no service shares."""

    secret: SecretStr = Field(SecretStr("known"), min_length=3, description="A password.")
    on: Switch = Field(True, description="A switch.")
    heap: Heap = Field("1g", description="A heap.")


def test_a_secret_is_not_told() -> None:
    with pytest.raises(MillraceError, match="MILLRACE_SECRET") as caught:
        load_settings(Odd, {"MILLRACE_SECRET": "ab"})
    assert "ab" not in caught.value.message


@pytest.mark.parametrize(("value", "on"), [("0", False), ("1", True), ("false", False), ("True", True)])
def test_switches(value: str, on: bool) -> None:
    assert load_settings(Odd, {"MILLRACE_ON": value}).on is on


@pytest.mark.parametrize(("variable", "value"), [
    ("ON", "yes"), ("ON", "2"), ("HEAP", "1"), ("HEAP", "0g"), ("HEAP", "1g\n"), ("HEAP", "1 GB"),
])  # fmt: skip
def test_what_is_nearly_right_is_refused(variable: str, value: str) -> None:
    with pytest.raises(MillraceError, match=f"MILLRACE_{variable} must be"):
        load_settings(Odd, {f"MILLRACE_{variable}": value})


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings(ServiceSettings).slots = 3


def test_every_setting_is_in_the_table() -> None:
    lines = settings_table(ServiceSettings).splitlines()[2:]
    assert len(lines) == len(ServiceSettings.model_fields)
    for line, (name, field) in zip(lines, ServiceSettings.model_fields.items(), strict=True):
        assert line.startswith(f"| `MILLRACE_{name.upper()}` |")
        assert field.description
        assert field.description in line
