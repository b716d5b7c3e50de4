"""Writing to a log that may be away for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError

PAUSE = 1.0


def patiently(
    action: Callable[[], object], stop: threading.Event, logger: FilteringBoundLogger, what: str,
    refused: Callable[[MillraceError], None] = lambda error: None,
) -> bool:  # fmt: skip
    """Do it, however long the broker is away; False when stopped before it was done.

    What the log refuses for good is done with too; ``refused`` is told of it.
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
