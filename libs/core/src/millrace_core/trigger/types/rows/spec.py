"""Every row triggers."""

from __future__ import annotations

import msgspec

from millrace_core.model.triggers import Trigger


class EveryRow(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="EveryRow"):
    """The trigger of a stream without a window."""
