"""COUNT_WINDOW: a window of a number of rows, and a new one every number of rows."""

from __future__ import annotations

import msgspec

from millrace_core.model.triggers import Trigger


class Count(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Count"):
    """With ``columns`` a row counts only if one of them is not NULL."""

    count: int
    sliding: int
    columns: tuple[str, ...] = ()
