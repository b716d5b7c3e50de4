"""What applies to every statement of every dialect while it runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.session import Session
from millrace_core.errors import ErrorCode, Fault, MillraceError
from millrace_core.language.lexer import DOUBLE_QUOTED, SINGLE_QUOTED

LOGGED = 1000
"""How many characters of a statement go into the log."""


_TEXT = re.compile(rf"{SINGLE_QUOTED}|{DOUBLE_QUOTED}|['\"].*", re.DOTALL)


def _logged(sql: str) -> str:
    """A statement without its string literals: they may be passwords, or rows."""
    return _TEXT.sub("'…'", sql)[:LOGGED]


@dataclass(slots=True)
class Counted:
    """``kind``: what a statement is counted as; set once that is known."""

    kind: str


class Running:
    """May be used by many threads. There is one for all dialects: what an outage has left open for one of
    them is open for the others as well. ``settle``: finds out what became of what was sent during an
    outage."""

    def __init__(self, context: Context, settle: Callable[[Context], object]) -> None:
        self._context = context
        self._settle = settle
        self._unsettled = False

    @contextmanager
    def counted(self, kind: str, sql: str) -> Iterator[Counted]:
        """A statement runs meanwhile: it is counted and timed, and its errors are counted.

        :raises MillraceError: INTERNAL in place of an unforeseen error, which is logged.
        """
        begin, found = time.monotonic(), Counted(kind)
        try:
            yield found
        except MillraceError as error:
            metrics.ERRORS.labels(error.code.name).inc()
            raise
        except Exception as error:
            metrics.ERRORS.labels(ErrorCode.INTERNAL.name).inc()
            self._context.logger.exception("a statement failed unexpectedly", sql=_logged(sql))
            raise MillraceError(
                ErrorCode.INTERNAL, f"the statement failed unexpectedly: {type(error).__name__}; see the log"
            ) from error
        finally:
            metrics.REQUESTS.labels(found.kind).inc()
            metrics.SECONDS.labels(found.kind).observe(time.monotonic() - begin)

    def abandon(self, session: Session) -> None:
        """End the queries of a statement whose client has gone away, if any run."""
        try:
            self._context.calc.kill(session.id, "the end of its connection")
        except MillraceError as error:
            if error.code is not ErrorCode.UNKNOWN_QUERY:
                self._context.logger.warning(
                    "the query of a client that has disconnected could not be cancelled", reason=str(error)
                )

    @contextmanager
    def changing(self, changes: bool) -> Iterator[None]:
        """A statement runs meanwhile that ``changes`` something, or not. After an outage the broker may or
        may not have taken what was sent; that is found out before the next change."""
        if changes and self._unsettled:
            self._settle(self._context)
            self._unsettled = False
        try:
            yield
        except MillraceError as error:
            self._unsettled |= changes and error.code.value.fault is Fault.EXTERNAL
            raise
