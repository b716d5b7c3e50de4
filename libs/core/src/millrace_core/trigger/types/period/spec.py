"""PERIOD: instants of processing time."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trigger


class Period(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Period"):
    """``timezone``: whose midnights count, the server's."""

    every: Duration
    offset: Duration | None = None
    timezone: str = "UTC"
