"""What every Millrace service shares: settings, logs, the life of threads, health, metrics, a clean stop."""

from millrace_service.life import Life, Trouble, Work, end_process
from millrace_service.logs import configure_logs
from millrace_service.observe import Health, instance, service_app
from millrace_service.passed_over import passed_over
from millrace_service.progress import Lives, Look, Progress, Stall, behind, instant
from millrace_service.serve import serve
from millrace_service.settings import ServiceSettings, load_settings, settings_table

__all__ = [
    "Health", "Life", "Lives", "Look", "Progress", "ServiceSettings", "Stall", "Trouble", "Work", "behind",
    "configure_logs", "end_process", "instance", "instant", "load_settings", "passed_over", "serve",
    "service_app", "settings_table",
]  # fmt: skip
