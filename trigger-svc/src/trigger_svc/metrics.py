"""Metrics: the query's, from Spark's progress reports when they are asked for, and the slots' counters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from millrace_core.errors import WireError
from millrace_core.wire import status
from millrace_core.wire.counters import BY_NAME, combined
from millrace_core.wire.topics import STATUS
from millrace_wal import BEGIN, Gap, Log, Reader

LEFT_OUT = frozenset({"undecodable", "empty_windows"})
"""Counters of what triggers nothing that is not a row."""
BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


OFFSETS_LOST = Counter(
    "millrace_trigger_offsets_lost",
    "Offsets that a topic had forgotten before the query read them.",
    ["topic"],
)


def count_lost(gap: Gap) -> None:
    OFFSETS_LOST.labels(gap.topic).inc(gap.offsets)


class QueryMetrics:
    """A Prometheus collector. ``query``: gives the StreamingQuery, or None while there is none; ``rested``:
    the batches behind which it rested, whose duration says nothing."""

    def __init__(
        self,
        registry: CollectorRegistry,
        query: Callable[[], Any],
        rested: Callable[[], Collection[int]],
        log: Log,
    ) -> None:
        self._query = query
        self._rested = rested
        self._log = log
        self._reader: Reader | None = None
        self._last = ("", -1)
        self._totals: dict[bytes, status.Counters] = {}
        registry.register(self)  # collected first: what it takes in shows in the same answer
        self._seconds = Histogram(
            "millrace_trigger_batch_seconds",
            "Duration of micro-batches.",
            buckets=BUCKETS,
            registry=registry,
        )
        self._messages = Counter(
            "millrace_trigger_messages", "Messages read by the trigger query.", registry=registry
        )

    def collect(self) -> Iterator[Metric]:
        query = self._query()
        if query is not None:
            self._take(query)
        self._read_status()
        dropped = GaugeMetricFamily(
            "millrace_trigger_dropped",
            "Rows and messages that trigger nothing, by cause.",
            labels=["stream", "cause"],
        )
        done = GaugeMetricFamily(
            "millrace_trigger_counted",
            "What else slots count of a stream, see docs/COUNTERS.md.",
            labels=["stream", "counter"],
        )
        for stream, totals in combined(self._totals.values()).items():
            for name, value in totals.items():
                lost = BY_NAME[name].sort == "unused" or name in LEFT_OUT
                (dropped if lost else done).add_metric([str(stream), name], value)
        yield dropped
        yield done

    def _take(self, query: Any) -> None:
        """Take in the progress reports that are new."""
        rested = set(self._rested())
        for progress in query.recentProgress:
            run, batch = str(progress["runId"]), int(progress["batchId"])
            if (run == self._last[0] and batch <= self._last[1]) or not progress["numInputRows"]:
                continue
            self._last = (run, batch)
            self._messages.inc(progress["numInputRows"])
            if batch not in rested:
                self._seconds.observe(progress["durationMs"].get("triggerExecution", 0) / 1000)

    def _read_status(self) -> None:
        if self._reader is None:
            self._reader = self._log.reader({STATUS.name: {0: BEGIN}})
        while records := self._reader.poll(0.05):
            for record in records:
                if record.key is None or not record.key.startswith(b"counters/trigger-svc/"):
                    continue
                try:
                    news = status.read(record.key, record.value)
                except WireError:
                    continue  # calc-svc makes a dead letter of it
                if isinstance(news, status.Counters):
                    self._totals[record.key] = news
                else:
                    self._totals.pop(record.key, None)
