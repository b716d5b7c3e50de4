"""Which tables a query reads."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.language.query.parse import parse_query
from millrace_core.model.stream import StreamSpec


def sources(tree: exp.Expression, catalog: Catalog, database: str | None) -> list[tuple[str, str, exp.Table]]:
    """Tables that a query reads by name: (database, table, the node); for a child its super table as well."""
    found = []
    for node in tree.find_all(exp.Table):
        db = node.db or database
        if not isinstance(node.this, exp.Identifier) or db is None:
            continue
        found.append((db, node.name, node))
        known = catalog.find(db, node.name)
        if known and known[1]:
            found.append((db, known[0].name, node))
    return found


def read_by(spec: StreamSpec) -> list[tuple[str, str]]:
    """The tables that a stream triggers on and that its query names: (database, table)."""
    found = []
    if spec.source is not None:
        table = spec.source.table
        found.append((table.db, spec.source.child or table.name))
    named = _named(spec.query) if spec.query is not None else ()
    return found + [(db or spec.database, name) for db, name in named if db or spec.database]


@lru_cache(4096)
def _named(query: str) -> tuple[tuple[str, str], ...]:
    tables = parse_query(query).find_all(exp.Table)
    return tuple((node.db, node.name) for node in tables if isinstance(node.this, exp.Identifier))
