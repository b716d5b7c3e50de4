"""Limits how much larger than its text a query may become.

Some of Spark's expressions repeat an argument. In nested calls this doubles the argument again and again: a
dozen of them would use up all memory before Spark has seen any.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query.nodes import position_of

MOST_GROWN = 50_000
"""Nodes that a query may have in addition to those of its text and PER_NODE for each of these."""
PER_NODE = 20
LARGE = 1_000
"""If arguments have this many nodes, the call is first checked for how often it would repeat them."""
_SIZE = "size"


@dataclass(slots=True)
class Growth:
    """The growth of one query. ``visited``: nodes of its text; ``made``: other nodes."""

    visited: int = 0
    made: int = 0

    def add(self, nodes: int, at: exp.Expr) -> None:
        """So many nodes are made; :raises SqlError: TOO_LARGE, with the place, if that is too many."""
        self.made += nodes
        self.check(0, at)

    def copied(self, node: exp.Expr, times: int, at: exp.Expr) -> None:
        """A typed node is about to be copied this often; :raises SqlError: likewise."""
        self.visited += 1
        self.add(size_of(node) * times, at)

    def check(self, nodes: int, at: exp.Expr) -> None:
        """:raises SqlError: likewise, before these nodes are made."""
        if self.made + nodes > MOST_GROWN + PER_NODE * self.visited:
            raise SqlError(
                ErrorCode.TOO_LARGE,
                "the query becomes too large here: functions that repeat their arguments in Spark are nested "
                "too deeply, or used in too many columns",
                position_of(at),
            )


def size_of(node: exp.Expr) -> int:
    """The number of nodes; nodes below one that was :func:`measured` are not counted again."""
    found, below = 1, list(node.iter_expressions())
    while below:
        one = below.pop()
        known = one.meta.get(_SIZE)
        found += known or 1
        if known is None:
            below.extend(one.iter_expressions())
    return found


def measured(node: exp.Expr) -> int:
    """The size of the node; it is stored with the node, and so with its copies."""
    found = node.meta[_SIZE] = size_of(node)
    return found


def known_size(node: exp.Expr) -> int:
    """The size of a node that was measured."""
    return int(node.meta.get(_SIZE, 0))
