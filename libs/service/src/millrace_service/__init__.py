"""What every Millrace service shares: settings, logs, health and metrics, a clean stop."""

from millrace_service.logs import configure_logs
from millrace_service.observe import Health, instance, service_app
from millrace_service.serve import serve
from millrace_service.settings import ServiceSettings, load_settings, settings_table

__all__ = [
    "Health", "ServiceSettings", "configure_logs", "instance", "load_settings", "serve", "service_app",
    "settings_table",
]  # fmt: skip
