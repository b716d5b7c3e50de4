"""What the trigger loop counts of each stream, for the ``status`` topic. See ``wire.counters``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calc_svc.jobs.job import Product
from calc_svc.store.catalog import CatalogView
from millrace_core.wire.counters import Tally
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.topics import STATUS
from millrace_service import instance
from millrace_wal import Message


@dataclass(frozen=True, slots=True)
class Arrival:
    """A trigger batch, the partition and offset of ``triggers`` where it stands, and whether it came again
    after a restart of trigger-svc."""

    batch: TriggerBatch
    partition: int
    offset: int
    repeated: bool

    @property
    def part(self) -> tuple[int, int]:
        """The stream, and the partition: what is calculated in order."""
        return self.batch.stream, self.partition


def tally_of(catalog: CatalogView, service: str) -> Tally:
    """Counts for this process, on top of what the ``status`` topic says."""
    return Tally(service, instance(), lambda stream, slot: catalog.counters_of(service, stream, slot))


def messages(tally: Tally) -> list[Message]:
    """The counters that have changed."""
    return [Message(STATUS.name, key, value) for key, value in tally.take()]


def count_round(tally: Tally, arrivals: Sequence[Arrival], products: Sequence[Product], now: int) -> None:
    """Count one round: the batches that came, and what was made of them at ``now`` (ns).

    Events belong to the partition they came from; what a job gave, to the first partition of its stream.
    """
    first: dict[int, int] = {}
    made = {product.stream: product for product in products if product.known}
    for arrival in arrivals:
        stream, partition = arrival.batch.stream, arrival.partition
        if stream not in made:
            continue
        first.setdefault(stream, partition)
        if arrival.offset < tally.upto(stream, partition):
            continue
        events = sum(event.kind != "GONE" for event in arrival.batch.events)
        taken = "events_taken" if arrival.batch.slot >= 0 else "events_again"
        counts = {"repeated" if arrival.repeated else taken: events, "started": now}
        tally.add(stream, partition, counts, arrival.offset + 1)
    for stream, partition in first.items():
        counts = made[stream].counts
        if counts["calculations"]:
            counts["last_calculated"] = now
        tally.add(stream, partition, counts)
