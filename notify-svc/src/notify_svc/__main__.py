"""``python -m notify_svc``."""

from __future__ import annotations

import sys

from millrace_core.errors import MillraceError
from millrace_service import collect_seldom, configure_logs, load_settings
from millrace_service.web import serve
from millrace_wal import KafkaLog
from notify_svc.app import notify_app
from notify_svc.settings import NotifySettings


def main() -> int:
    logger = configure_logs("notify-svc", "INFO")
    try:
        settings = load_settings(NotifySettings)
        kafka = settings.kafka.librdkafka
    except MillraceError as error:
        logger.error(str(error))
        return 2
    logger = configure_logs("notify-svc", settings.log_level)
    app = notify_app(settings, lambda: KafkaLog(settings.broker, "notify-svc", kafka), logger)
    collect_seldom()
    return serve(app, settings.host, settings.notify_port, settings.stop_seconds, tls=settings.tls_pair)


if __name__ == "__main__":
    sys.exit(main())
