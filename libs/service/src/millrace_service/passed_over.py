"""Counts and logs the messages that a service passes over because it cannot understand them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prometheus_client import Counter
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.wire.topics import WAL_PREFIX

PASSED_OVER = Counter(
    "millrace_passed_over",
    "Messages skipped because they could not be understood, by topic and error code.",
    ["topic", "cause"],
)


class LogPlace(Protocol):
    """Where a message lies."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


def passed_over(logger: FilteringBoundLogger) -> Callable[[LogPlace, MillraceError], None]:
    """A function that counts and logs a message, with the reason why it cannot be used. Messages of producers
    are only counted: there may be thousands a second, and each gets a dead letter anyway."""

    def tell(place: LogPlace, error: MillraceError) -> None:
        if place.topic.startswith(WAL_PREFIX):
            PASSED_OVER.labels(f"{WAL_PREFIX}*", error.code.name).inc()
            return
        PASSED_OVER.labels(place.topic, error.code.name).inc()
        logger.error(
            "a message was skipped", topic=place.topic, partition=place.partition, offset=place.offset,
            code=error.code.name, cause=error.message[:500],
        )  # fmt: skip

    return tell
