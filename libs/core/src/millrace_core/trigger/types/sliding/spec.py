"""SLIDING: instants of event time."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trigger


class Sliding(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Sliding"):
    """``timezone``: whose midnights count, the server's."""

    sliding: Duration
    offset: Duration | None = None
    timezone: str = "UTC"
