"""EVENT_WINDOW: from a row that meets one condition to the next that meets another."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Condition, Duration
from millrace_core.model.triggers import Trigger


class Event(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Event"):
    """``true_for``: shorter windows do not count."""

    start: Condition
    end: Condition
    true_for: Duration | None = None
