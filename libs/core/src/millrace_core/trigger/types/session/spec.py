"""SESSION: rows that lie no further apart than a gap."""

from __future__ import annotations

import msgspec

from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trigger


class Session(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Session"):
    gap: Duration
