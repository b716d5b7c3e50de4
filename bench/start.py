"""``start_seconds``: from nothing to all parts ready, on an empty data folder with the jars there."""

from __future__ import annotations

from typing import Any

from bench.size import Size
from bench.stage import stage


def measure(size: Size) -> dict[str, Any]:
    """Seconds of one start."""
    with stage("start") as one:
        return {"start_seconds": round(one.start_seconds, 1)}
