"""Gives a planned query its two shapes: for one trigger, and for a set of triggers at once.

In the set-oriented shape every relation, and every result, has ``_tid``: the number of the trigger that a row
is for. Placeholders become columns of ``_trig``, which is joined where they are used.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.plan.scope import column, own
from millrace_core.plan.spark.text import column_of
from millrace_core.plan.types.typed import number

TID, TRIG = "_tid", "_trig"
_NOTES = ("root", "global", "always", "inner", "constant", "zero", "result")
"""Notes that the passes left at nodes, and that are read here."""


def set_wise(tree: exp.Expr) -> exp.Expr:
    """The query for many triggers: its first column is ``_tid``."""
    made = _query(_copied(tree))
    if isinstance(made, exp.Select) and made.meta.get("global"):
        return made  # one row for each trigger: there is no order to keep
    order = made.args.get("order")
    if isinstance(made, exp.Select) and order is None:
        return made
    keys = order.expressions if order is not None else []
    made.set("order", exp.Order(expressions=[exp.Ordered(this=column(TID), nulls_first=True), *keys]))
    return made


def _copied(tree: exp.Expr) -> exp.Expr:
    """A copy of a planned tree with only those of its notes that are read here: a deep copy of all notes
    would take longer than the planning itself."""
    root = tree.__class__()
    stack = [(tree, root)]
    while stack:
        node, made = stack.pop()
        notes = {name: note for name in _NOTES if (note := node.meta_get(name)) is not None}
        if notes:
            made.meta.update(notes)
        if node.comments:
            made.comments = list(node.comments)
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                stack.append((value, value.__class__()))
                made.set(key, stack[-1][1])
            elif type(value) is list:
                pairs = [(one, one.__class__() if isinstance(one, exp.Expr) else one) for one in value]
                stack.extend((one, copy) for one, copy in pairs if isinstance(one, exp.Expr))
                made.set(key, [copy for _, copy in pairs])
            else:
                made.args[key] = value
    return root


def _query(tree: exp.Expr) -> exp.Expr:
    if isinstance(tree, exp.SetOperation):
        for key in ("this", "expression"):
            side = tree.args[key]
            inner = side.this if isinstance(side, exp.Subquery) else side
            made = _query(inner)
            if isinstance(side, exp.Subquery):
                side.set("this", made)
            else:
                tree.set(key, made)
        return _limited(tree)
    assert isinstance(tree, exp.Select)
    return _limited(_select(tree))


def _select(select: exp.Select) -> exp.Select:
    for join in select.args.get("joins") or []:
        if (join.args.get("side") or "").upper() in ("RIGHT", "FULL"):
            _hand_values(select, join)
    placeholders = [node for node in own(select) if isinstance(node, exp.Placeholder)]
    for place in _places(select):
        if isinstance(place.this, exp.Subquery):
            place.this.set("this", _query(place.this.this))
    source = select.args.get("from_")
    if source is None or isinstance(source.this, exp.Values):  # the same for all triggers
        select.set("from_", exp.From(this=_table(TRIG)))
        if source is not None:
            select.append("joins", exp.Join(this=source.this, kind="CROSS"))
        tid: exp.Expr = column(TID, TRIG)
    elif select.meta.get("always"):
        tid = _left_of_triggers(select)
    else:
        tid = _joined(select, bool(placeholders))
    for node in placeholders:
        replacement = column(column_of(node.name), TRIG)
        parent = node.parent
        # a cast gave the constant its type, which the column has anyway
        (parent if isinstance(parent, exp.Cast) else node).replace(replacement)
    for window in list(own(select)):
        if isinstance(window, exp.Window):
            window.set("partition_by", [tid.copy(), *(window.args.get("partition_by") or [])])
    first = exp.Alias(this=tid, alias=exp.to_identifier(TID, quoted=True))
    select.set("expressions", [first, *select.expressions])
    _group(select, tid)
    return select


def _table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _places(select: exp.Select) -> list[exp.Expr]:
    places: list[exp.Expr] = [select.args["from_"]] if select.args.get("from_") else []
    return places + [join for join in select.args.get("joins") or [] if not join.meta.get("constant")]


def _tid_of(place: exp.Expr) -> exp.Column:
    return column(TID, place.this.alias_or_name)


def _joined(select: exp.Select, placeholders: bool) -> exp.Expr:
    """Join the relations on the trigger as well, and the triggers themselves if their values are used."""
    first, *joins = _places(select)
    tid: exp.Expr = _tid_of(first)
    for join in joins:
        other = _tid_of(join)
        same = exp.EQ(this=other, expression=tid.copy())
        tid = _tid_after(join.args.get("side"), tid, other)
        on = join.args.get("on")
        join.set("on", exp.And(this=exp.Paren(this=on), expression=same) if on is not None else same)
        join.set("kind", None)
    if placeholders:
        same = exp.EQ(this=column(TID, TRIG), expression=tid.copy())
        triggers = exp.Join(this=_table(TRIG), on=same)
        joined = select.args.get("joins") or []
        # the trigger's number in an outer join is known only after the join
        outer = not isinstance(tid, exp.Column) or tid.table != first.this.alias_or_name
        select.set("joins", [*joined, triggers] if outer else [triggers, *joined])
    return tid


def _hand_values(select: exp.Select, join: exp.Expr) -> None:
    """Add to the rows of a RIGHT or FULL join the trigger values that its condition uses: the triggers
    themselves can only be joined after it."""
    on, alias = join.args.get("on"), join.this.alias_or_name
    nodes = list(on.find_all(exp.Placeholder)) if on is not None else []
    if not nodes:
        return
    used = [n.name for n in own(select) if isinstance(n, exp.Column) and n.table == alias]
    columns: dict[str, exp.Expr] = {name: column(name, alias) for name in used}
    for node in nodes:
        name = column_of(node.name)
        # a cast gave the constant its type
        value = node.parent if isinstance(node.parent, exp.Cast) else node
        columns[name] = value.copy()
        value.replace(column(name, alias))
    rows = exp.Select(
        expressions=[
            exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)) for name, node in columns.items()
        ],
        from_=exp.From(this=join.this),
    )
    named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    join.set("this", exp.Subquery(this=rows, alias=named))


def _tid_after(side: str | None, tid: exp.Expr, other: exp.Column) -> exp.Expr:
    """The trigger of a join's row: that of the side that always has a row."""
    match (side or "").upper():
        case "RIGHT":
            return other.copy()
        case "FULL":
            return exp.Coalesce(this=tid.copy(), expressions=[other.copy()])
    return tid


def _left_of_triggers(select: exp.Select) -> exp.Column:
    """Give every trigger a row, because of a count: 0 if there were no rows."""
    aggregated = select.args["from_"].this
    same = exp.EQ(this=_tid_of(select.args["from_"]), expression=column(TID, TRIG))
    select.set("from_", exp.From(this=_table(TRIG)))
    select.set("joins", None)  # these give the plan for one trigger its row without rows
    select.append("joins", exp.Join(this=aggregated, side="LEFT", on=same))
    for node in list(own(select)):
        if node.meta.get("zero"):
            node.replace(exp.Coalesce(this=node.copy(), expressions=[number(0)]))
    return column(TID, TRIG)


def _group(select: exp.Select, tid: exp.Expr) -> None:
    if not select.meta.get("inner"):
        return
    group = select.args.get("group")
    keys = group.expressions if group is not None else []
    select.set("group", exp.Group(expressions=[tid.copy(), *keys]))


def _limited(query: exp.Expr) -> exp.Expr:
    """Make LIMIT and OFFSET count within each trigger: rows are numbered in the order asked for."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if limit is None and offset is None:
        if not query.meta.get("root"):
            query.set("order", None)
        return query
    order = query.args.get("order")
    query.set("limit", None)
    query.set("offset", None)
    query.set("order", None)
    keys = _order_columns(query, order)
    numbered = exp.Window(
        this=exp.RowNumber(), partition_by=[column(TID)], order=exp.Order(expressions=keys) if keys else None
    )
    # Spark can only number rows in some order; if none is asked for, any will do
    if not keys:
        numbered.set("order", exp.Order(expressions=[exp.Ordered(this=column(TID), nulls_first=True)]))
    names = [column(name) for name in _names(query)]
    all_ = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("_all", quoted=True)))
    row = exp.Alias(this=numbered, alias=exp.to_identifier("_row", quoted=True))
    inner = exp.Select(expressions=[*[n.copy() for n in names], row], from_=exp.From(this=all_))
    alias = exp.TableAlias(this=exp.to_identifier("_numbered", quoted=True))
    outer = exp.Select(expressions=names, from_=exp.From(this=exp.Subquery(this=inner, alias=alias)))
    skipped = int(offset.expression.name) if offset is not None else 0
    if skipped:
        outer.where(exp.GT(this=column("_row"), expression=number(skipped)), copy=False)
    if limit is not None:
        last = number(skipped + int(limit.expression.name))
        outer.where(exp.LTE(this=column("_row"), expression=last), copy=False)
    outer.set("order", exp.Order(expressions=[exp.Ordered(this=column("_row"), nulls_first=True)]))
    outer.meta["root"] = query.meta.get("root")
    return outer


def _names(query: exp.Expr) -> list[str]:
    select = query
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    return [node.alias for node in select.expressions if not node.alias.startswith("_o#")]


def _order_columns(query: exp.Expr, order: exp.Expr | None) -> list[exp.Expr]:
    """ORDER BY as columns of the query's result; other expressions become columns ``_o#n``."""
    keys: list[exp.Expr] = []
    for i, ordered in enumerate(order.expressions if order is not None else []):
        if not ordered.this.meta.get("result"):
            assert isinstance(query, exp.Select)
            name = f"_o#{i}"
            query.append(
                "expressions", exp.Alias(this=ordered.this, alias=exp.to_identifier(name, quoted=True))
            )
            ordered.set("this", column(name))
        keys.append(ordered)
    return keys
