"""Figures from samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` (0…1] of all do not exceed (nearest rank)."""
    if not samples:
        raise ValueError("a percentile needs samples")
    if not 0 < share <= 1:
        raise ValueError(f"{share} is not a share of the samples")
    ordered = sorted(samples)
    return ordered[math.ceil(share * len(ordered)) - 1]


def latencies_ms(seconds: Sequence[float]) -> dict[str, float]:
    """``{p50, p99}`` in milliseconds."""
    return {f"p{share}": round(percentile(seconds, share / 100) * 1000, 1) for share in (50, 99)}


def rate(count: int, seconds: float) -> float:
    """Per second, to three significant digits or whole numbers."""
    if seconds <= 0:
        raise ValueError(f"a rate needs time, not {seconds} s")
    found = count / seconds
    return float(round(found)) if found >= 100 else float(f"{found:.3g}")


def at(results: Mapping[str, Any], path: str) -> float | None:
    """The figure at ``key`` or ``key.inner``; None if it was not measured."""
    found: Any = results
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return float(found)
