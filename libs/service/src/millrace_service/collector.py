"""Python's garbage collector in a process that lives long and makes many objects."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 50_000
"""How many more new objects than freed ones there are before the collector looks at them; Python's default is
700. A round of triggers makes about as many that live until its end."""


def collect_seldom() -> None:
    """Keep what exists by now out of the collector's sight, and have it look at new objects less often.

    Otherwise it looks through all modules and tables again and again while thousands of rows a second come:
    half of the time that a row takes (decision 0081). It does not look for garbage first, which would hold up
    a start by 0.1 s and find next to nothing.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
