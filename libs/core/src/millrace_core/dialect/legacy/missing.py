"""What of the older dialect is read and judged, and cannot be run yet: one table."""

from __future__ import annotations

from collections.abc import Callable

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.model.stream import StreamSpec

MISSING: dict[str, Callable[[StreamSpec], bool]] = {
    "FILL under TRIGGER FORCE_WINDOW_CLOSE": lambda spec: (
        spec.emission.when == "force_window_close" and spec.emission.fill is not None
    ),
}
"""What it is called, and which streams need it."""


def check_runs(spec: StreamSpec, position: Position) -> None:
    """``position``: of the stream's name.

    :raises SqlError: UNSUPPORTED for a stream that nothing can run yet.
    """
    for what, needed in MISSING.items():
        if needed(spec):
            raise SqlError(
                ErrorCode.UNSUPPORTED,
                f"{what}: the stream {spec.full_name} is checked but cannot be run yet; EXPLAIN CREATE "
                "STREAM gives the statement of the newer dialect that comes nearest",
                position,
            )
