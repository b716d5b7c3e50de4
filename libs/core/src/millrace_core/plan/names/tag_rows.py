"""SELECT TAGS, and SELECT DISTINCT tbname: one row for each child table, with or without stored rows."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Child, Table
from millrace_core.plan.scope import Context, Relation, column, table_columns
from millrace_core.plan.types.typed import fail, number, spark_type

LIST = "_children"


def tag_rows(node: exp.Table, table: Table, child: str | None, ctx: Context) -> tuple[Relation, exp.Subquery]:
    """The relation of a super table's children (or of one child), and the query that gives it.

    :raises SqlError: NOT_ALLOWED for a table without tags, and in a stream, which would have to
        follow new tables.
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
    # one flat list: a UNION of SELECTs would be as deep as there are children
    given = [
        tuple(_constant(value) for value in _values(found))
        for found in children or [Child(table.db, table.name, "", (None,) * len(table.tags))]
    ]
    rows = exp.values(given, alias=LIST, columns=list(types))
    for name in rows.find_all(exp.Identifier):
        name.set("quoted", True)
    query = exp.Select(
        expressions=[
            exp.Alias(
                this=exp.Cast(this=column(name, LIST), to=spark_type(type_.type)),
                alias=exp.to_identifier(name, quoted=True),
            )
            for name, type_ in types.items()
        ],
        from_=exp.From(this=rows),
    )
    if not children:
        query.set("where", exp.Where(this=exp.Boolean(this=False)))
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
