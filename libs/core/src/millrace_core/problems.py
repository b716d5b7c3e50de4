"""Which streams a service's problem touches: those that the problem names, and those that need a table that
it names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.language.query import parse_query
from millrace_core.language.query.sources import sources
from millrace_core.language.virtual import sources_of
from millrace_core.wire.status import Problem
from millrace_core.wire.topics import wal_topic

Name = tuple[str, str]


def state_with(
    entry: StreamEntry, catalog: Catalog, problems: Collection[Problem], state: tuple[str, str]
) -> tuple[str, str]:
    """(status, message) of a stream whose state without these problems would be ``state``. A problem that
    keeps the stream from going on is a failure. What was lost is reported with the status until the stream is
    started anew, and what has stalled for as long as it is stalled."""
    if entry.wanted != "Running":
        return state
    mine = list(touching(entry, catalog, problems)) if problems else []
    stops = next((one.message for one in mine if one.control is None and not one.stalled_since), None)
    if stops is not None:
        return "Failed", stops
    return (state[0], "; ".join(one.message for one in mine)) if mine and not state[1] else state


def touching(entry: StreamEntry, catalog: Catalog, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Those of the problems that touch the stream."""
    needed: set[str] | None = None
    for problem in problems:
        if problem.control is not None and entry.control > problem.control:
            continue
        if problem.topics and needed is None:
            needed = topics_of(entry, catalog)
        of_table = needed is not None and not needed.isdisjoint(problem.topics)
        if problem.everything or entry.spec.uid in problem.streams or of_table:
            yield problem


def topics_of(entry: StreamEntry, catalog: Catalog) -> set[str]:
    """The WAL topics of all tables that a stream triggers on, reads or writes; for a virtual table also those
    that its columns come from."""
    spec = entry.spec
    found: set[Name] = set()
    if spec.source is not None:
        found.add((spec.source.table.db, spec.source.table.name))
    if spec.output is not None:
        found.add((spec.output.db, spec.output.table))
    if spec.query is not None:
        found |= {(db, name) for db, name, _ in sources(parse_query(spec.query), catalog, spec.database)}
    virtual = [
        catalog.tables[name] for name in found if name in catalog.tables and catalog.tables[name].virtual
    ]
    found = found.union(*(sources_of(table, catalog) for table in virtual))
    return {wal_topic(*name) for name in found}
