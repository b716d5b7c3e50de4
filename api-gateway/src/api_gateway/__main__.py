"""``python -m api_gateway``: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import sys

from api_gateway.service import build
from api_gateway.settings import GatewaySettings
from millrace_core.errors import MillraceError
from millrace_service import configure_logs, load_settings
from millrace_service.web import serve


def main() -> int:
    logger = configure_logs("api-gateway", "INFO")
    try:
        settings = load_settings(GatewaySettings)
        logger = configure_logs("api-gateway", settings.log_level)
        app = build(settings, logger)
    except MillraceError as error:
        logger.error("cannot start", code=error.code.name, reason=str(error))
        return 1
    return serve(
        app,
        settings.host,
        settings.gateway_port,
        settings.stop_seconds,
        settings.iotdb_port,
        settings.tls_pair,
    )


if __name__ == "__main__":
    sys.exit(main())
