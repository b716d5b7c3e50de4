"""What every Millrace service shares: settings, logs, the life of threads, health, metrics, a clean stop."""

from millrace_service.life import Life, Trouble, Work, end_process
from millrace_service.logs import configure_logs
from millrace_service.observe import Health, instance, service_app
from millrace_service.serve import serve
from millrace_service.settings import ServiceSettings, load_settings, settings_table

__all__ = [
    "Health", "Life", "ServiceSettings", "Trouble", "Work", "configure_logs", "end_process", "instance",
    "load_settings", "serve", "service_app", "settings_table",
]  # fmt: skip
