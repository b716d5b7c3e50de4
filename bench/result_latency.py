"""``result_latency_ms``: a row is written -> the notification with the result that it causes is received."""

from __future__ import annotations

from typing import Any

from bench.size import Size
from bench.stats import latencies_ms
from bench.steady import HIGH_RATE, RATE, result_latencies


def measure(size: Size) -> dict[str, Any]:
    """``{p50, p99}`` at 200 and at 5,000 rows a second."""
    return {
        "result_latency_ms": latencies_ms(result_latencies(size, RATE)),
        "result_latency_5000_ms": latencies_ms(result_latencies(size, HIGH_RATE)),
    }
