"""What notify-svc counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

DELIVERED = Counter("millrace_notify_delivered_total", "Events that an address has confirmed.", ["stream"])
DROPPED = Counter("millrace_notify_dropped_total", "Events given up, by cause.", ["stream", "cause"])
MESSAGES = Counter("millrace_notify_messages_total", "Messages sent to addresses, including repeats.")
FAILURES = Counter(
    "millrace_notify_failures_total", "Failed attempts to reach an address, by cause.", ["cause"]
)
PAUSED = Gauge(
    "millrace_notify_paused",
    "Streams (per partition of notifications) that are waiting for one of their addresses.",
)
WAITING = Gauge("millrace_notify_waiting", "Events that are neither delivered nor dropped.")
CONNECTIONS = Gauge("millrace_notify_connections", "Open connections to addresses.")
LATENCY = Histogram(
    "millrace_notify_latency_seconds",
    "From when a record of events is written to the log until all its addresses have it.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
SENT = Counter("millrace_notify_sent_total", "Events sent to subscribers.")
REFUSED = Counter("millrace_notify_refused_total", "Subscriptions refused, by error code.", ["code"])
SUBSCRIBERS = Gauge("millrace_notify_subscribers", "Open subscriptions.")
MISSED = Counter(
    "millrace_notify_missed_total", "Events that subscribers missed because they read too slowly."
)
