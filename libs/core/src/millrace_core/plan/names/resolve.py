"""Passes that find what the names of tables and columns mean, and that name the result columns."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query import parse_expression
from millrace_core.language.query.nodes import WindowClause, position_of
from millrace_core.model.sub_tables import GROUP_TAG, GROUP_TAG_ALIAS
from millrace_core.plan.analytics.forecast import forecast_column
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.fill.interp import interp_column
from millrace_core.plan.names.range import RANGE_COLUMNS, range_column
from millrace_core.plan.names.tag_rows import tag_rows
from millrace_core.plan.scope import (
    Context,
    Relation,
    Result,
    Scope,
    SourceDraft,
    column,
    near,
    own,
    put,
    table_columns,
)
from millrace_core.plan.system.tables import SYSTEM_TABLES
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, fail, with_type

WINDOW_COLUMNS = ("_wstart", "_wend", "_wduration")
MOST_COLUMNS = 4096
"""The most result columns of a SELECT, as in TDengine."""
NOT_YET = frozenset({"_irowts", "_isfilled", "_flow", "_fhigh", "_frowts"})


def resolve_tables(scope: Scope, ctx: Context) -> None:
    """Give each relation of FROM and JOIN its name in the generated SQL, and note what it is.

    :raises SqlError: UNKNOWN_TABLE, NO_DATABASE, or NOT_ALLOWED for a placeholder that cannot stand here.
    """
    select = scope.select
    places: list[exp.Expr] = [select.args["from_"]] if select.args.get("from_") else []
    places += select.args.get("joins") or []
    for place in places:
        this = place.this
        if isinstance(this, exp.Subquery):
            relation = _subquery(this, ctx)
        elif isinstance(this, exp.Table) and scope.record(Clauses).tags:
            relation = _tag_rows(place, this, ctx)
        elif isinstance(this, exp.Table):
            relation = _table(this, scope, ctx)
        else:
            raise fail(ErrorCode.UNSUPPORTED, "FROM can contain only tables and subqueries", this)
        taken = {name for other in scope.relations for name in other.names}
        if relation.names and relation.names[0] in taken and _alias(this):
            raise fail(ErrorCode.NOT_ALLOWED, f"two tables in FROM are named {relation.names[0]}", this)
        scope.relations.append(relation)
        if (place.args.get("side") or "").upper() == "RIGHT":
            scope.driving = relation


def _alias(node: exp.Expr) -> str | None:
    alias = node.args.get("alias")
    return alias.name if alias else None


def _subquery(node: exp.Subquery, ctx: Context) -> Relation:
    results: list[Result] = node.this.meta["results"]
    alias = f"_sub{ctx.number()}"
    own_alias = _alias(node)
    node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    types = {result.alias: result.typed for result in results}
    key = next((result.alias for result in results if result.typed.timestamp), None)
    return Relation((own_alias,) if own_alias else (), alias, types, tuple(types), key)


def _table(node: exp.Table, scope: Scope, ctx: Context) -> Relation:
    own_alias = _alias(node)
    if isinstance(node.this, exp.Placeholder):
        draft, name = _placeholder_table(node, scope, ctx)
    elif node.args.get("db") and node.args["db"].name in ("information_schema", "performance_schema"):
        return _system_table(node, ctx)
    else:
        draft, name = _stored_table(node, ctx)
    assert draft.table is not None
    ctx.drafts.append(draft)
    names = (own_alias,) if own_alias else tuple(n for n in (name, draft.table.name) if n)
    _replace(node, draft.relation)
    columns = table_columns(draft.table)
    visible = [c.name for c in draft.table.columns]
    if not draft.child and draft.table.tags and not draft.own_table:
        visible += [t.name for t in draft.table.tags]
    return Relation(names, draft.relation, columns, tuple(visible), draft.table.key.name, draft)


def _replace(node: exp.Table, relation: str) -> None:
    place = position_of(node)
    node.meta.update(line=place.line, col=place.column)  # for errors about its clause
    for key in ("db", "catalog", "alias"):
        node.set(key, None)
    node.set("this", exp.to_identifier(relation, quoted=True))


def _stored_table(node: exp.Table, ctx: Context) -> tuple[SourceDraft, str]:
    if node.args.get("catalog"):
        raise fail(ErrorCode.SYNTAX, "a table name must have the form table or database.table", node)
    database = node.args["db"].name if node.args.get("db") else ctx.database
    if not database:
        raise fail(ErrorCode.NO_DATABASE, f"no database is selected for table {node.name}", node)
    if database not in ctx.catalog.databases:
        message = f"unknown database {database}{near(database, ctx.catalog.databases)}"
        raise fail(ErrorCode.UNKNOWN_DATABASE, message, node)
    found = ctx.catalog.find(database, node.name)
    if found is None:
        names = ctx.catalog.names(database)
        message = f"unknown table {database}.{node.name}{near(node.name, names)}"
        raise fail(ErrorCode.UNKNOWN_TABLE, message, node)
    table, child = found
    relation = f"_src{len(ctx.drafts)}"
    order = tuple(table_columns(table))
    return SourceDraft(relation, "table", table, order, child=child.name if child else None), node.name


def _tag_rows(place: exp.Expr, node: exp.Table, ctx: Context) -> Relation:
    if isinstance(node.this, exp.Placeholder):
        raise fail(ErrorCode.NOT_ALLOWED, f"SELECT TAGS cannot read {node.this.name}", node)
    draft, _ = _stored_table(node, ctx)
    assert draft.table is not None
    relation, query = tag_rows(node, draft.table, draft.child, ctx)
    place.set("this", query)
    own_alias = _alias(node)
    return replace(relation, names=(own_alias,)) if own_alias else relation


def _placeholder_table(node: exp.Table, scope: Scope, ctx: Context) -> tuple[SourceDraft, str | None]:
    name = node.this.name
    if name not in ("%%tbname", "%%trows"):
        raise fail(ErrorCode.NOT_ALLOWED, f"{name} is not a table; use %%tbname or %%trows", node)
    source = ctx.source
    if source is None:
        raise fail(ErrorCode.NOT_ALLOWED, f"{name} needs a trigger table", node)
    if name == "%%tbname" and "tbname" not in ctx.partition:
        raise fail(ErrorCode.NOT_ALLOWED, "%%tbname needs PARTITION BY tbname", node)
    ctx.uses.add(name)
    table = source.table
    draft = SourceDraft(
        f"_src{len(ctx.drafts)}", "table", table, tuple(table_columns(table)), child=source.child
    )
    draft.own_table = "tbname" in ctx.partition
    if name == "%%trows":
        _trows(draft, scope, ctx)
    return draft, None


def _trows(draft: SourceDraft, scope: Scope, ctx: Context) -> None:
    """The trigger's own rows: bounded by the trigger type, filtered by PRE_FILTER; no WHERE or JOIN
    is allowed."""
    select = scope.select
    where = select.args.get("where")
    if where is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "WHERE cannot be used with %%trows", where)
    if select.args.get("joins"):
        raise fail(ErrorCode.NOT_ALLOWED, "%%trows cannot be joined", select.args["joins"][0])
    draft.kind = "trows"
    draft.low, draft.high = list(ctx.trows[0]), list(ctx.trows[1])
    draft.written = ctx.trows_written
    draft.group_tags = bool(ctx.partition) and not draft.own_table
    if ctx.pre_filter:
        select.set("where", exp.Where(this=parse_expression(ctx.pre_filter)))


def _system_table(node: exp.Table, ctx: Context) -> Relation:
    schema = node.args["db"].name
    columns = SYSTEM_TABLES.get(node.name) if schema == "information_schema" else None
    if columns is None:
        there = f"; information_schema has {', '.join(SYSTEM_TABLES)}"
        message = f"unknown table {schema}.{node.name}{near(node.name, SYSTEM_TABLES) or there}"
        raise fail(ErrorCode.UNKNOWN_TABLE, message, node)
    draft = next((d for d in ctx.drafts if d.relation == node.name), None)
    if draft is None:
        draft = SourceDraft(node.name, "system", None, tuple(columns))
        ctx.drafts.append(draft)
    own_alias = _alias(node)
    alias = f"_sys{ctx.number()}"
    name = node.name
    _replace(node, name)
    node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    types = {c: Typed(t, "ms" if t.name == "TIMESTAMP" else None) for c, t in columns.items()}
    return Relation((own_alias or name,), alias, types, tuple(columns), None, draft)


def name_results(scope: Scope, ctx: Context) -> None:
    """Give every result column its name: the alias, or the text as written (in lower case outside quotes).

    In the SQL, ``#2`` and so on tells equal names apart.

    :raises SqlError: TOO_LARGE for more than :data:`MOST_COLUMNS`.
    """
    projections = scope.select.expressions
    if len(projections) > MOST_COLUMNS:
        message = f"a SELECT has {len(projections):,} columns; at most {MOST_COLUMNS:,} are allowed"
        raise fail(ErrorCode.TOO_LARGE, message, projections[MOST_COLUMNS])
    taken: set[str] = set()
    last: dict[str, int] = {}
    named: list[exp.Expr] = []
    for node in projections:
        text = node.meta.get("text", "")
        aliased = isinstance(node, exp.Alias)
        if aliased:
            this, name = node.this, node.args["alias"].name
        elif isinstance(node, exp.Column) and not node.meta.get("resolved"):
            this, name = node, node.name
        else:
            this, name = node, _lower(" ".join(text.split()))
        alias, n = name, last.get(name, 1)
        while alias in taken or alias in ("_tid", "_notify"):
            n += 1
            alias = f"{name}#{n}"
        taken.add(alias)
        last[name] = n
        wrapped = exp.Alias(this=this, alias=exp.to_identifier(alias, quoted=True))
        wrapped.meta["name"], wrapped.meta["aliased"] = name, aliased
        named.append(wrapped)
    scope.select.set("expressions", named)


def _lower(text: str) -> str:
    """Lower case, except for what is in quotes."""
    parts = re.split(r"('[^']*'|\"[^\"]*\"|`[^`]*`)", text)
    return "".join(part if i % 2 else part.lower() for i, part in enumerate(parts))


def resolve_columns(scope: Scope, ctx: Context) -> None:
    """Turn every name into a column of a relation, a pseudo column, or a call of ``now``.

    :raises SqlError: UNKNOWN_COLUMN or AMBIGUOUS_COLUMN, with the name's place.
    """
    select = scope.select
    aliases = {node.meta["name"]: node for node in select.expressions}
    order = select.args.get("order")
    if order is not None:
        _resolve_order(order, select.expressions, aliases, distinct=select.args.get("distinct") is not None)
    _resolve_groups(select)
    for key in ("group", "having"):
        if (clause := select.args.get(key)) is not None:
            _resolve_aliases(clause, aliases, scope)
    for node in select.args.get("partition_by") or []:
        _resolve_aliases(node, aliases, scope)
    for node in list(own(select)):
        if isinstance(node, exp.Column) and not node.meta.get("resolved"):
            put(node, _resolved(node, scope, ctx))


def _resolve_order(
    order: exp.Expr, projections: list[exp.Expr], aliases: dict[str, exp.Expr], distinct: bool
) -> None:
    """In ORDER BY, a number, or a result's name or text, means the result column."""
    written: dict[exp.Expr, exp.Expr] = {}
    for projection in projections:
        written.setdefault(projection.this, projection)
    for ordered in order.expressions:
        this = ordered.this
        target = None
        if isinstance(this, exp.Literal) and not this.is_string:
            if not (this.name.isdigit() and 1 <= int(this.name) <= len(projections)):
                raise fail(ErrorCode.INVALID_VALUE, f"there is no result column {this.name}", this)
            target = projections[int(this.name) - 1]
        elif isinstance(this, exp.Column) and not this.args.get("table") and this.name in aliases:
            target = aliases[this.name]
        else:
            target = written.get(this)
        if target is not None:
            reference = column(target.alias)
            reference.meta.update(resolved=True, result=target.alias)
            ordered.set("this", reference)
        elif distinct:
            message = "ORDER BY of a SELECT DISTINCT can use only its result columns"
            raise fail(ErrorCode.NOT_ALLOWED, message, this)


def _resolve_groups(select: exp.Select) -> None:
    """In GROUP BY and PARTITION BY, too, a number means the result column."""
    group = select.args.get("group")
    for node in [*(group.expressions if group is not None else []), *(select.args.get("partition_by") or [])]:
        if isinstance(node, exp.Literal) and not node.is_string:
            if not (node.name.isdigit() and 1 <= int(node.name) <= len(select.expressions)):
                raise fail(ErrorCode.INVALID_VALUE, f"there is no result column {node.name}", node)
            put(node, select.expressions[int(node.name) - 1].this.copy())


def _resolve_aliases(clause: exp.Expr, aliases: dict[str, exp.Expr], scope: Scope) -> None:
    """In GROUP BY and HAVING, a result's name means its expression, unless a table has such a column."""
    for node in list(clause.find_all(exp.Column)):
        known = any(node.name in relation.columns for relation in scope.relations)
        if not known and not node.args.get("table") and node.name in aliases:
            put(node, aliases[node.name].this.copy())


def named_relation(node: exp.Column, scope: Scope) -> Relation:
    """The relation that the column's table name means; :raises SqlError: UNKNOWN_TABLE, AMBIGUOUS_COLUMN."""
    name = node.args["table"].name
    found = [relation for relation in scope.relations if name in relation.names]
    if not found:
        known = [n for relation in scope.relations for n in relation.names]
        raise fail(ErrorCode.UNKNOWN_TABLE, f"there is no table {name} in FROM{near(name, known)}", node)
    if len(found) > 1:
        raise fail(ErrorCode.AMBIGUOUS_COLUMN, f"the table name {name} in FROM is ambiguous", node)
    return found[0]


def _resolved(node: exp.Column, scope: Scope, ctx: Context) -> exp.Expr:
    name = node.name
    if isinstance(node.this, exp.Star) and node.parent is not None and node.parent.name == "count":
        rows = named_relation(node, scope)  # count(t.*): an outer join may add rows without a row of t
        return _keep(node, rows.column(rows.key or rows.visible[0]))
    relations = [named_relation(node, scope)] if node.args.get("table") else scope.relations
    found = [relation for relation in relations if name in relation.columns]
    if not found and name == GROUP_TAG_ALIAS:
        name = GROUP_TAG.name
        found = [
            one
            for one in relations
            if one.draft and one.draft.table and one.draft.table.tag(name) == GROUP_TAG
        ]
    if not found:
        return _pseudo(node, relations, scope)
    if len(found) > 1:
        raise fail(
            ErrorCode.AMBIGUOUS_COLUMN, f"column {name} is ambiguous: it is in more than one table", node
        )
    return _keep(node, found[0].column(name))


def _keep(node: exp.Expr, new: exp.Expr) -> exp.Expr:
    place = position_of(node)
    new.meta.update(line=place.line, col=place.column, resolved=True)
    return new


def _pseudo(node: exp.Column, relations: list[Relation], scope: Scope) -> exp.Expr:
    name = node.name
    quoted = node.this.args.get("quoted")
    if not quoted and name in ("_c0", "_rowts"):
        named = next((relation for relation in relations if relation.key is not None), None)
        timed = named if node.args.get("table") else scope.timed
        if timed is not None and timed.key is not None:
            return _keep(node, timed.column(timed.key))
    elif not quoted and name in WINDOW_COLUMNS:
        if not scope.record(Clauses).windowed:
            raise fail(ErrorCode.NOT_ALLOWED, f"{name} needs a window clause such as INTERVAL", node)
        if node.find_ancestor(exp.Where, exp.Group, WindowClause) is not None:
            message = f"{name} is known only when the windows have been formed, so it cannot be used here"
            raise fail(ErrorCode.NOT_ALLOWED, message, node)
        timed = scope.timed
        precision = timed.columns[timed.key].precision if timed and timed.key else None
        type_ = Typed(BIGINT) if name == "_wduration" else Typed(TIMESTAMP, precision)
        return _keep(node, with_type(column(name), type_))
    elif not quoted and name in RANGE_COLUMNS and (timed := scope.timed) is not None:
        return _keep(node, range_column(node, timed))
    elif not quoted and name in ("now", "today") and not node.args.get("table"):
        return _keep(node, exp.Anonymous(this=name, expressions=[]))
    if not quoted and (found := interp_column(name, scope) or forecast_column(name, scope)) is not None:
        return _keep(node, found)
    if name in NOT_YET:
        raise fail(ErrorCode.UNSUPPORTED, f"the pseudo column {name} cannot be used here", node)
    known = [c for relation in relations for c in relation.columns]
    raise SqlError(ErrorCode.UNKNOWN_COLUMN, f"unknown column {name}{near(name, known)}", position_of(node))
