"""What tells the rows of a SELECT's result apart."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp


@dataclass
class Keys:
    """Columns over the rows or groups that a SELECT gives: ``order`` tells these apart, and orders them;
    ``parts`` are the expressions of its partitions. ``windows``: how many of the last PARTITION BY
    expressions come from windows."""

    order: list[exp.Column] = field(default_factory=list)
    parts: list[exp.Expr] = field(default_factory=list)
    windows: int = 0
