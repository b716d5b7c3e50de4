"""``trigger_latency_ms``: a row is written -> the trigger event that it causes is read."""

from __future__ import annotations

from typing import Any

from bench.size import Size
from bench.stats import latencies_ms
from bench.steady import HIGH_RATE, RATE, trigger_latencies


def measure(size: Size) -> dict[str, Any]:
    """``{p50, p99}`` at 200 and at 5,000 rows a second."""
    return {
        "trigger_latency_ms": latencies_ms(trigger_latencies(size, RATE)),
        "trigger_latency_5000_ms": latencies_ms(trigger_latencies(size, HIGH_RATE)),
    }
