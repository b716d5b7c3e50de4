"""What tells the rows apart that a SELECT gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp


@dataclass
class Keys:
    """Over the rows or groups that a SELECT gives: ``order`` tells them apart, in their order; ``parts`` are
    the expressions of its partitions. ``windows``: how many of the last of PARTITION BY are its windows'."""

    order: list[exp.Column] = field(default_factory=list)
    parts: list[exp.Expr] = field(default_factory=list)
    windows: int = 0
