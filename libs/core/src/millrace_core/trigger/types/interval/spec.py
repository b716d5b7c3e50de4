"""INTERVAL: windows of fixed length at fixed distances."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trigger


class Interval(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Interval"):
    """``timezone``: by whose clock days, weeks, months and years are counted."""

    interval: Duration
    sliding: Duration
    offset: Duration | None = None
    timezone: str = "UTC"
