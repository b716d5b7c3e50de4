"""Failed logins of one user from one address, one after another, make the next one wait."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from cachetools import TTLCache

from millrace_core.errors import ErrorCode, MillraceError

FREE = 5
"""How many failures cost nothing."""
LONGEST = 60.0
"""In seconds. The first wait is one second, and each further wait is twice as long as the one before."""
REMEMBERED, REMEMBERED_SECONDS = 10_000, 600.0


class _Failures(NamedTuple):
    number: int
    until: float


class Attempts:
    """``clock``: gives seconds that never go back. Failures from one address lock nobody out at another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: TTLCache[tuple[str, str], _Failures] = TTLCache(REMEMBERED, REMEMBERED_SECONDS, clock)
        self._lock = threading.Lock()

    def check(self, name: str, address: str) -> None:
        """:raises MillraceError: AUTHENTICATION while this user must wait at this address; the password is
        not even checked then."""
        with self._lock:
            known = self._failed.get((name, address))
        left = known.until - self._clock() if known else 0.0
        if left > 0:
            raise MillraceError(
                ErrorCode.AUTHENTICATION, f"too many failed logins: try again in {math.ceil(left)} s"
            )

    def failed(self, name: str, address: str) -> None:
        """Note that the password was wrong, or that no user has that name."""
        with self._lock:
            known = self._failed.get((name, address))
            number = known.number + 1 if known else 1
            wait = min(2.0 ** min(number - FREE, 10), LONGEST) if number >= FREE else 0.0
            self._failed[name, address] = _Failures(number, self._clock() + wait)

    def passed(self, name: str, address: str) -> None:
        """The password was right: forget earlier failures."""
        with self._lock:
            self._failed.pop((name, address), None)
