"""What librdkafka reports, as Millrace's errors."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from millrace_core.errors import ErrorCode, MillraceError

_TIMEOUTS = frozenset({
    KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE,
    KafkaError.REQUEST_TIMED_OUT,
})  # fmt: skip
MISSING = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
MOVING = frozenset({
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""A partition's leader or a group's coordinator is being chosen: ask again. (KafkaError's ``retriable()`` is
about transactions only.)"""
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
REBALANCED = frozenset({
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET, KafkaError._ASSIGNMENT_LOST,
})  # fmt: skip


REFUSED = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
"""A broker does not let the user in, or we do not trust the broker."""
OUT = 10.0
"""Seconds after which a client that has done nothing but fail is followed by a new one."""


def is_fatal(error: KafkaError) -> bool:
    """Whether the client that says so will never work again."""
    return bool(error.fatal()) or error.code() in (KafkaError._FATAL, KafkaError._FENCED)


class Strikes:
    """Whether a client has done nothing but fail for ``seconds``; ``now`` returns the time in seconds."""

    def __init__(self, seconds: float = OUT, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self._since: float | None = None

    def out(self) -> bool:
        """Note another failure; returns whether there has been nothing else for too long."""
        if self._since is None:
            self._since = self._now()
        return self._now() - self._since > self._seconds

    def forget(self) -> None:
        """The client has worked, or a new client begins."""
        self._since = None


def kafka_error(error: KafkaError | KafkaException, doing: str) -> MillraceError:
    """``doing`` says what was tried, e.g. ``append to topic x``; the error's text begins with it."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code = cause.code()
    if code in _TIMEOUTS:
        return MillraceError(ErrorCode.TIMEOUT, f"{doing}: the broker did not answer in time")
    if code in MISSING:
        return MillraceError(ErrorCode.UNAVAILABLE, f"{doing}: the topic does not exist")
    if code in TOO_LARGE:
        return MillraceError(ErrorCode.TOO_LARGE, f"{doing}: the message is larger than the broker accepts")
    return MillraceError(ErrorCode.UNAVAILABLE, f"{doing}: {cause.str()}")
