"""STATE_WINDOW: runs of rows of one state."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trigger


class State(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="State"):
    """``extend``: to which window the rows without a state between two belong (0: none, 1: the earlier one,
    2: the later one). ``true_for``: shorter windows do not count."""

    column: str
    extend: int = 0
    true_for: Duration | None = None
