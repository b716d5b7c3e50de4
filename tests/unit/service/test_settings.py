"""Settings come from the environment, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import ServiceSettings, load_settings, settings_table


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
    assert settings.slots == 8


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MILLRACE_CALC_PORT", "0"), ("MILLRACE_SLOTS", "many"), ("MILLRACE_LOG_LEVEL", "loud")],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(MillraceError, match=variable) as caught:
        load_settings(ServiceSettings)
    assert caught.value.code is ErrorCode.INVALID_VALUE


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
