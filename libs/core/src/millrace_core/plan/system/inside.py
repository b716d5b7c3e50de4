"""Who may look inside a stream: what it counts, what it waits for and why it fails depend on the rows that it
reads. Everybody who may know of its database may see its definition and its state."""

from __future__ import annotations

import dataclasses

from millrace_core.catalog import Catalog
from millrace_core.language.query.sources import read_by
from millrace_core.model.stream import StreamSpec
from millrace_core.plan.system.streams import News
from millrace_core.privileges import Need, may


def looks_into(catalog: Catalog, user: str, spec: StreamSpec) -> bool:
    """Whether the user may read everything that the stream reads."""
    return may(catalog, user, (Need("read", db, table=name) for db, name in read_by(spec)))


def for_reader(news: News, catalog: Catalog, user: str) -> News:
    """What the services report, without the insides of streams that the user may not look into."""
    closed = frozenset(
        entry.spec.uid for entry in catalog.streams.values() if not looks_into(catalog, user, entry.spec)
    )
    names = {name for name, entry in catalog.streams.items() if entry.spec.uid in closed}
    return dataclasses.replace(
        news,
        statuses={
            name: (state, "" if name in names else message)
            for name, (state, message) in news.statuses.items()
        },
        recalculations=[one for one in news.recalculations if one.stream not in closed],
        counters=[one for one in news.counters if one.stream not in closed],
        behind={uid: count for uid, count in news.behind.items() if uid not in closed},
        failures={
            (uid, slot): "" if uid in closed else why
            for (uid, slot), why in news.failures.items()
            if uid not in closed or slot is None
        },
        closed=closed,
    )
