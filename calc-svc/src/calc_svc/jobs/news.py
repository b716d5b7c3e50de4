"""What the services tell of streams, put together from the ``status`` topic and the table store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.catalog import StreamEntry
from millrace_core.plan.system.streams import News
from millrace_core.wire.status import AnyStatus, Counters, QueryRuns, ReadUpTo
from millrace_core.wire.topics import wal_topic

Report = TypeVar("Report", Counters, ReadUpTo, QueryRuns)


def stream_news(catalog: CatalogView, store: TableStore) -> News:
    """As far as this process has read the topics."""
    with catalog.lock:
        records = list(catalog.statuses.values())
        statuses, recalculations = catalog.stream_statuses(), catalog.recalculations()
        failures = catalog.failures()
    reads = {one.topic: one for one in _of(records, ReadUpTo)}
    return News(
        statuses, recalculations, _of(records, Counters), _behind(catalog.streams(), reads, store),
        failures,
        next((one.instance for one in reads.values()), ""), _of(records, QueryRuns),
    )  # fmt: skip


def _of(records: Sequence[AnyStatus], kind: type[Report]) -> list[Report]:
    return [one for one in records if isinstance(one, kind)]


def _behind(
    entries: Sequence[StreamEntry], reads: Mapping[str, ReadUpTo], store: TableStore
) -> dict[int, int]:
    """By stream uid: how many messages of its trigger table this process has stored that trigger-svc has not
    yet reported as evaluated. trigger-svc reports once a second."""
    found: dict[int, int] = {}
    for entry in entries:
        if (source := entry.spec.source) is None:
            continue
        topic = wal_topic(source.table.db, source.table.name)
        stored, read = store.by_topic(topic), reads.get(topic)
        if stored is not None and read is not None:
            ends = dict(stored.positions)
            found[entry.spec.uid] = sum(max(end - read.offsets.get(p, 0), 0) for p, end in ends.items())
    return found
