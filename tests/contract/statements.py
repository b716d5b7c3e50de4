"""What contract tests read of sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def statements(source: str) -> Iterator[ast.AST]:
    """All statements, at any depth, in order. Expressions hold none, and are most of what ``ast.walk``
    visits."""
    yield from _within(ast.parse(source))


def _within(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for block in _BLOCKS:
        for inner in getattr(node, block, ()):
            yield from _within(inner)
