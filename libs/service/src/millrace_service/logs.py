"""Logs: one JSON object per line on stderr, for libraries too."""

from __future__ import annotations

import logging
import sys
from typing import Any, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

TALKATIVE = ("httpx", "py4j")
"""Libraries that log each request, and each call of Java, as information: their warnings are enough."""


def configure_logs(service: str, level: str) -> FilteringBoundLogger:
    """Route structlog and the standard library's logging to stderr; returns the service's logger.

    A line has ``time`` (ISO 8601, UTC), ``level``, ``service``, ``event`` (the sentence) and what is bound.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _named(service),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for library in TALKATIVE:
        logging.getLogger(library).setLevel(max(root.level, logging.WARNING))
    return cast(FilteringBoundLogger, structlog.get_logger(service))


def _named(service: str) -> Processor:
    def add(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("service", service)
        return event

    return add
