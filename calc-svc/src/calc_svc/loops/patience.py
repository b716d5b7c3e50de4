"""Writing to a log that may be away for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_wal import Log, Message

PAUSE = 1.0


def patiently(
    action: Callable[[], object], stop: threading.Event, logger: FilteringBoundLogger, what: str,
    refused: Callable[[MillraceError], None] = lambda error: None,
) -> bool:  # fmt: skip
    """Do it, however long the broker is away; False when stopped before it was done.

    What the log refuses for good counts as done, too; ``refused`` is told of it.
    """
    while not stop.is_set():
        try:
            action()
            return True
        except MillraceError as error:
            logger.warning(what, error=str(error))
            if not error.code.value.retry:
                refused(error)
                return True
            stop.wait(PAUSE)
    return False


def append_apart(
    log: Log, messages: Sequence[Message], refused: Callable[[Message, MillraceError], None]
) -> None:
    """Write all that the log takes, in order. ``refused`` is told of each message that it refuses for good:
    one stream's message must not keep those of the others from being written.

    :raises MillraceError: if the log is away.
    """
    try:
        log.append(messages)
    except MillraceError as error:
        if error.code.value.retry:
            raise
        if len(messages) == 1:
            refused(messages[0], error)
            return
        half = len(messages) // 2
        append_apart(log, messages[:half], refused)
        append_apart(log, messages[half:], refused)
