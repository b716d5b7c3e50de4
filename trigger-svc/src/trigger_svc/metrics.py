"""Metrics of batches, and the slots' counters."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from millrace_core.errors import WireError
from millrace_core.wire import status
from millrace_core.wire.counters import BY_NAME, combined
from millrace_core.wire.topics import STATUS
from millrace_wal import BEGIN, Gap, Log, Reader

LEFT_OUT = frozenset({"undecodable", "empty_windows"})
"""Counters of things other than rows that trigger nothing."""
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


MESSAGES = Counter("millrace_trigger_messages", "Messages that were evaluated.", registry=None)
BATCH_SECONDS = Histogram(
    "millrace_trigger_batch_seconds",
    "How long it took to evaluate a batch in the driver and to send what follows from it.",
    buckets=BUCKETS,
    registry=None,
)
OFFSETS_LOST = Counter(
    "millrace_trigger_offsets_lost",
    "Offsets that a topic had discarded before the query read them.",
    ["topic"],
    registry=None,
)


IMPATIENT = Counter(
    "millrace_trigger_impatient",
    "Control records and ticks that took effect without the rows that they had been waiting for.",
    registry=None,
)


def count_lost(gap: Gap) -> None:
    OFFSETS_LOST.labels(gap.topic).inc(gap.offsets)


class SlotMetrics:
    """A Prometheus collector of what slots count."""

    def __init__(self, registry: CollectorRegistry, log: Log) -> None:
        self._log = log
        self._reader: Reader | None = None
        self._totals: dict[bytes, status.Counters] = {}
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        self._read_status()
        dropped = GaugeMetricFamily(
            "millrace_trigger_dropped",
            "Rows and messages that trigger nothing, by cause.",
            labels=["stream", "cause"],
        )
        done = GaugeMetricFamily(
            "millrace_trigger_counted",
            "The other counters of a stream in the slots, see docs/COUNTERS.md.",
            labels=["stream", "counter"],
        )
        for stream, totals in combined(self._totals.values()).items():
            for name, value in totals.items():
                lost = BY_NAME[name].sort == "unused" or name in LEFT_OUT
                (dropped if lost else done).add_metric([str(stream), name], value)
        yield dropped
        yield done

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
