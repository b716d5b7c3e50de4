"""SELECT TAGS: one row for each child table, with or without stored rows."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Child, Table
from millrace_core.plan.scope import Context, Relation, table_columns
from millrace_core.plan.typed import fail, number, spark_type


def tag_rows(node: exp.Table, table: Table, child: str | None, ctx: Context) -> tuple[Relation, exp.Subquery]:
    """The relation of a super table's children (or of one child), and the query that gives it.

    :raises SqlError: NOT_ALLOWED for a table without tags, and in a stream, which must follow new tables.
    """
    if not table.tags:
        raise fail(ErrorCode.NOT_ALLOWED, f"SELECT TAGS needs a super table; {node.name} has no tags", node)
    if ctx.placeholders:
        raise fail(ErrorCode.NOT_ALLOWED, "SELECT TAGS cannot be used in a stream", node)
    children = [
        found
        for found in ctx.catalog.children.values()
        if (found.db, found.table) == (table.db, table.name) and child in (None, found.name)
    ]
    all_types = table_columns(table)
    types = {name: all_types[name] for name in ("tbname", *(tag.name for tag in table.tags))}
    alias = f"_tags{ctx.number()}"
    rows: list[exp.Expr] = [
        exp.Select(
            expressions=[
                exp.Alias(
                    this=exp.Cast(this=_constant(value), to=spark_type(type_.type)),
                    alias=exp.to_identifier(name, quoted=True),
                )
                for (name, type_), value in zip(types.items(), _values(found), strict=True)
            ]
        )
        for found in children or [Child(table.db, table.name, "", (None,) * len(table.tags))]
    ]
    if not children:
        rows[0].set("where", exp.Where(this=exp.Boolean(this=False)))
    query = rows[0]
    for row in rows[1:]:
        query = exp.Union(this=query, expression=row, distinct=False)
    named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    visible = tuple(tag.name for tag in table.tags)
    return Relation((node.name, table.name), alias, types, visible), exp.Subquery(this=query, alias=named)


def _values(child: Child) -> tuple[object, ...]:
    return (child.name, *child.tags)


def _constant(value: object) -> exp.Expr:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return number(value)
        case float():
            return exp.Literal.string(repr(value))
    return exp.Literal.string(str(value))
