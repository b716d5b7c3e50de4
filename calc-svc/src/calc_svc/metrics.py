"""What calc-svc counts and measures."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from millrace_wal import Gap

ROWS_STORED = Counter("millrace_rows_stored", "Rows taken from the WAL into the table store")
OFFSETS_LOST = Counter(
    "millrace_offsets_lost", "Offsets that a topic had discarded before they were read", ["topic"]
)
MEMORY_ROWS = Gauge("millrace_memory_rows", "Rows that the table store keeps in memory")
FLUSH_SECONDS = Histogram("millrace_flush_seconds", "Time to bring one table's Delta files up to date")
FLUSH_FAILURES = Counter("millrace_flush_failures", "Flushes to Delta that failed")
TRIGGERS_WAITING = Gauge(
    "millrace_triggers_waiting", "Trigger events that are waiting to be calculated", ["loop"]
)
TRIGGERS_CALCULATED = Counter("millrace_triggers_calculated", "Trigger events that were calculated")
WINDOWS_OVERTAKEN = Counter(
    "millrace_windows_overtaken",
    "Trigger events calculated again, because another loop had written the window in the meantime",
)
EVENTS_DROPPED = Counter("millrace_events_dropped", "Trigger events not calculated, by cause", ["cause"])
RESULT_ROWS = Counter("millrace_result_rows", "Result rows written to output tables")
NULL_KEYS = Counter("millrace_null_key_rows", "Result rows not stored because their key is NULL")
JOB_SECONDS = Histogram(
    "millrace_job_seconds", "Duration of a calculation job", ["kind"],
    buckets=(0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)  # fmt: skip
RECALCULATION_SECONDS = Histogram(
    "millrace_recalculation_seconds", "Time to answer one stream's requests", ["kind"],
    buckets=(0.01, 0.1, 1, 10, 100, 1000),
)  # fmt: skip
RECALCULATED_ROWS = Counter("millrace_recalculated_rows", "Stored rows read for recalculations and history")
QUERY_PROCESSES_ENDED = Counter(
    "millrace_query_processes_ended",
    "How often the processes that run users' queries (queries) and plan them (planning) have ended, by cause",
    ["process", "cause"],
)
QUERIES_REFUSED = Counter(
    "millrace_queries_refused", "Queries refused because earlier queries of the same user ended that process"
)
CALCULATION_FAILURES = Counter("millrace_calculation_failures", "Calculations given up", ["cause"])
STREAMS_HELD = Gauge(
    "millrace_calc_streams_held",
    "Streams (per partition of triggers) whose triggers are waiting (for an address, a table, rows).",
    ["loop"],
)


def count_lost(gap: Gap) -> None:
    OFFSETS_LOST.labels(gap.topic).inc(gap.offsets)
