"""EXPLAIN: a query's plan as rows of text, its Spark SQL and what it reads."""

from __future__ import annotations

import re

from sqlglot import exp

from millrace_core.errors import Position
from millrace_core.language.query.nodes import position_at
from millrace_core.model.stream import ResultColumn
from millrace_core.model.types import DataType
from millrace_core.plan.model import Plan, SourceUse
from millrace_core.plan.scope import column
from millrace_core.plan.spark.text import spark_text

COLUMN = "QUERY_PLAN"
_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?(\s+verbose\s+(true|false))?\s+", re.IGNORECASE)


def explained(sql: str) -> tuple[str, Position] | None:
    """The query that EXPLAIN asks about, and where it begins; None for any other statement."""
    found = _EXPLAIN.match(sql)
    return None if found is None else (sql[found.end() :], position_at(sql, found.end()))


def explain(plan: Plan) -> Plan:
    """The plan of a query that gives the plan's text, one row for each line. It reads nothing."""
    lines = [*spark_text(plan.one_tree, pretty=True).split("\n"), *map(_source, plan.sources)]
    values = exp.values(
        [(i, exp.Literal.string(line)) for i, line in enumerate(lines)], alias="_plan", columns=["n", "line"]
    )
    result = exp.Alias(this=column("line", "_plan"), alias=exp.to_identifier(COLUMN, quoted=True))
    order = exp.Order(expressions=[exp.Ordered(this=column("n", "_plan"), nulls_first=True)])
    return Plan(
        sources=(),
        result=(ResultColumn(COLUMN, DataType("VARCHAR", max(len(line.encode()) for line in lines))),),
        uses=frozenset(),
        precision=plan.precision,
        one_tree=exp.Select(expressions=[result], from_=exp.From(this=values), order=order),
        set_tree=None,
    )


def _source(use: SourceUse) -> str:
    table = f"{use.table.db}.{use.child or use.table.name}" if use.table else use.relation
    found = [f"{use.relation}: {use.kind} {table}", f"columns {', '.join(use.columns)}"]
    for name, bound in (("from", use.low), ("to", use.high)):
        if bound is not None and not bound.references:
            found.append(f"{name} {bound.evaluate({})}")
    return "; ".join(found)
