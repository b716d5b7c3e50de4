"""docs/SETTINGS.md, made of the settings themselves: ``python -m tests.settings`` writes it."""

from __future__ import annotations

from pathlib import Path

from api_gateway.settings import GatewaySettings
from calc_svc.settings import CalcSettings
from millrace.settings import CommandSettings
from millrace_service import Addresses, KafkaSettings, ServiceSettings, settings_table
from millrace_spark import SparkSettings
from notify_svc.settings import NotifySettings
from trigger_svc.settings import TriggerSettings

DOCUMENT = Path(__file__).parents[1] / "docs" / "SETTINGS.md"
_HEAD = """# Settings

Everything is set by environment variables. An invalid value stops a process at once, with a sentence
that names the variable, the value and what it must be. A variable that is set to an empty text counts as
not set (for the command line, that is an error). Switches are `0` or `1`.

This file is generated from the fields that the processes read: `make settings` rewrites it.
"""
_HANDED_ON = "`millrace up` hands the variables of the services on to those that it starts.\n\n"
_PARTS = (
    ("The command line and all services", "", Addresses, KafkaSettings),
    ("All clients of Kafka", "docs/SECURITY.md describes a broker with users.\n\n", KafkaSettings, None),
    ("All services", "", ServiceSettings, Addresses),
    ("api-gateway", "", GatewaySettings, ServiceSettings),
    (
        "trigger-svc and calc-svc",
        "Where Spark runs, and where their files are.\n\n",
        SparkSettings,
        ServiceSettings,
    ),
    ("trigger-svc", "", TriggerSettings, SparkSettings),
    ("calc-svc", "", CalcSettings, SparkSettings),
    ("notify-svc", "", NotifySettings, ServiceSettings),
    (
        "The command line",
        "`millrace up` passes all other variables on to the services that it starts.\n\n",
        CommandSettings,
        Addresses,
    ),
)


def document() -> str:
    """The text of the file."""
    parts = [f"## {title}\n\n{text}{settings_table(kind, base)}" for title, text, kind, base in _PARTS]
    return "\n".join([_HEAD, *parts])


if __name__ == "__main__":
    DOCUMENT.write_text(document())
