"""Which tables a query reads."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.catalog import Catalog


def sources(tree: exp.Expression, catalog: Catalog, database: str | None) -> list[tuple[str, str, exp.Table]]:
    """Tables that a query reads by name: (database, table, the node); for a child also its super table."""
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
