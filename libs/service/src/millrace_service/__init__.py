"""What every Millrace service shares: settings, logs, life of threads, health. How it answers over HTTP is in
``millrace_service.web``."""

from millrace_service.access.secret import kept_secret, read_secret, write_secret
from millrace_service.access.tls import Trust, trust
from millrace_service.access.token import ServiceToken, find_token
from millrace_service.collector import collect_seldom
from millrace_service.health import Health, instance
from millrace_service.kafka import KafkaAccess, KafkaSettings
from millrace_service.life import Life, Trouble, Work, end_process
from millrace_service.logs import configure_logs
from millrace_service.passed_over import passed_over
from millrace_service.priority import give_way
from millrace_service.progress import Lives, Look, Progress, Stall, behind, instant
from millrace_service.settings import (
    Addresses,
    Heap,
    ServiceSettings,
    Switch,
    load_settings,
    settings_table,
    variable_of,
)
from millrace_service.standby import turn_of, wait_for_turn
from millrace_service.tracing import OFF, Step, Tracing, start_tracing, timed

__all__ = [
    "OFF", "Addresses", "Health", "Heap", "KafkaAccess", "KafkaSettings", "Life", "Lives", "Look", "Progress",
    "ServiceSettings", "ServiceToken", "Stall", "Step", "Switch", "Tracing", "Trouble", "Trust", "Work",
    "behind", "collect_seldom", "configure_logs", "end_process", "find_token", "give_way", "instance",
    "instant", "kept_secret", "load_settings", "passed_over", "read_secret",
    "settings_table", "start_tracing", "timed", "trust", "turn_of", "variable_of", "wait_for_turn",
    "write_secret",
]  # fmt: skip
