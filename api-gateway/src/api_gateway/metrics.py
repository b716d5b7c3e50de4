"""What api-gateway counts."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

REQUESTS = Counter("millrace_gateway_requests", "SQL statements by kind.", ["statement"])
ERRORS = Counter("millrace_gateway_errors", "Statements refused or failed, by error code.", ["code"])
ROWS = Counter("millrace_gateway_rows_inserted", "Rows written by INSERT or by a protocol.")
CHILDREN = Counter("millrace_gateway_children", "Child tables created, by creator.", ["by"])
TRIGGER_FIRINGS = Counter(
    "millrace_gateway_trigger_firings", "Tablets that a trigger has fired for.", ["trigger"]
)
TRIGGER_FAILURES = Counter(
    "millrace_gateway_trigger_failures", "Firings of a trigger that failed.", ["trigger"]
)
TRIGGER_SECONDS = Histogram(
    "millrace_gateway_trigger_seconds",
    "How long a trigger's process took for the tablets of one call.",
    ["trigger"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
SECONDS = Histogram(
    "millrace_gateway_request_seconds",
    "How long statements took.",
    ["statement"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
