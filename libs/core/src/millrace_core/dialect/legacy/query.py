"""What an older stream's subquery says: its groups and its result columns. What it must not contain
is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millrace_core.conditions.row import AGGREGATES
from millrace_core.errors import ErrorCode, Position
from millrace_core.language.arguments import bad
from millrace_core.language.lexer import quote_name, tokens
from millrace_core.language.query import parse_expression, parse_query
from millrace_core.language.query.nodes import position_of
from millrace_core.language.statements import Argument, LegacyQuery, SqlText
from millrace_core.language.words import TokenKind
from millrace_core.model.schema import Table

REFUSED = frozenset({
    "leastsquares", "percentile", "top", "bottom", "elapsed", "interp", "derivative", "irate", "twa",
    "histogram", "diff", "statecount", "stateduration", "csum", "mavg", "sample", "tail", "unique", "mode",
})  # fmt: skip
"""Functions that no stream of this dialect has (seed 002)."""
PSEUDO = ("_wstart", "_wend", "_wduration")


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One item of PARTITION BY. ``text``: the expression without its alias; ``column``: its name, if it is
    nothing but tbname or a name."""

    name: str
    text: str
    position: Position
    column: str | None


@dataclass(frozen=True, slots=True)
class Item:
    """A result column. ``name``: its alias, else its text; ``text``: that of the expression, without the
    alias; ``position``: where it begins."""

    name: str
    text: str
    node: exp.Expr
    position: Position


def read(
    query: LegacyQuery, table: Table, *, on_super: bool
) -> tuple[tuple[Item, ...], tuple[PartitionKey, ...]]:
    """The result columns, with ``*`` expanded, and the groups.

    :raises SqlError: for what the dialect does not have: a placeholder, a subquery, a refused function, an
        aggregate without a window, a first column that is not a time, a name that is used twice.
    """
    tree = parse_query(query.text.text, query.text.position)
    _check_words(tree)
    for select in tree.find_all(exp.Select):
        if select is not tree:
            raise bad("a stream's query cannot contain a subquery", position_of(select))
    _check_qualifiers(tree, query)
    items = tuple(
        item
        for node, text in zip(tree.expressions, query.items, strict=True)
        for item in _items(node, text, table, on_super=on_super)
    )
    keys = tuple(
        _key(node, text)
        for node, text in zip(tree.args.get("partition_by") or (), query.partition, strict=True)
    )
    items = tuple(replace(item, text=unqualified(item.text, query)) for item in items)
    keys = tuple(replace(key, text=unqualified(key.text, query)) for key in keys)
    _check_keys(keys)
    _check_items(items, query, table)
    if query.window is not None:
        _check_grouped(items, keys, table, on_super=on_super)
    return items, keys


def _check_words(tree: exp.Expr) -> None:
    """:raises SqlError: for a placeholder of the newer dialect, or a function that this one does not have."""
    for placeholder in tree.find_all(exp.Placeholder):
        raise bad(
            f"{placeholder.name} belongs to the newer stream dialect; use _wstart, _wend and _wduration in "
            "the older one",
            position_of(placeholder),
            ErrorCode.SYNTAX,
        )
    for call in tree.find_all(exp.Anonymous):
        if call.this in REFUSED or call.this == "forecast":
            raise bad(f"{call.this} is not supported in a stream of the older dialect", position_of(call))


# -- names in front of columns -------------------------------------------------------------------------------


def _check_qualifiers(tree: exp.Expr, query: LegacyQuery) -> None:
    for column in tree.find_all(exp.Column):
        db = column.args.get("db")
        known = column.table in ("", _called(query))
        own = db is None or (query.alias is None and db.name == query.table.db)
        if not (known and own):
            raise bad(
                f"there is no table {column.table} in FROM", position_of(column), ErrorCode.UNKNOWN_TABLE
            )


def _called(query: LegacyQuery) -> str:
    """The name of the source table within the query."""
    return query.alias or query.table.name


def unqualified(text: str, query: LegacyQuery) -> str:
    """The text with blanks in place of the table's name before columns, so that no position changes."""
    found = tokens(text)
    ends = 0
    for i, token in enumerate(found):
        words = [one.value for one in found[i : i + 4]]
        count = 4 if words[::2] == [query.table.db, _called(query)] and words[1::2] == [".", "."] else 2
        if count == 2 and words[:2] != [_called(query), "."]:
            continue
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED) and token.start >= ends:
            ends = found[i + count - 1].end
            text = text[: token.start] + " " * (ends - token.start) + text[ends:]
    return text


def over_columns(query: LegacyQuery) -> LegacyQuery:
    """The query without the table's name before the columns of its WHERE and its window."""
    where, window = query.where, query.window
    if where is not None:
        where = replace(where, text=unqualified(where.text, query))
    if window is not None:
        arguments = tuple(Argument(unqualified(one.text, query), one.position) for one in window.arguments)
        window = replace(window, arguments=arguments)
    return replace(query, where=where, window=window)


# -- columns and groups --------------------------------------------------------------------------------------


def _items(node: exp.Expr, written: SqlText, table: Table, *, on_super: bool) -> list[Item]:
    """The result column; for ``*`` all columns of the table, and the tags if it is a super table."""
    if not node.is_star or isinstance(node, exp.Alias):
        return [_item(node, written.position)]
    names = [column.name for column in table.columns]
    names += [tag.name for tag in table.tags] if on_super else []
    return [Item(name, quote_name(name), exp.column(name, quoted=True), written.position) for name in names]


def _item(node: exp.Expr, where: Position) -> Item:
    text = str(node.meta["text"])
    if isinstance(node, exp.Alias):
        return Item(node.alias, _without_alias(text), node.this, where)
    return Item(node.name if isinstance(node, exp.Column) else text, text, node, where)


def _key(node: exp.Expr, text: SqlText) -> PartitionKey:
    plain = node.unalias()
    column = plain.name if isinstance(plain, exp.Column) else None
    expression = _without_alias(text.text) if isinstance(node, exp.Alias) else text.text
    name = node.alias if isinstance(node, exp.Alias) else column or text.text
    return PartitionKey(name, expression, text.position, column)


def _without_alias(text: str) -> str:
    """``expression [AS] name`` without the name."""
    found = tokens(text)[:-1]
    if found[-1].kind is TokenKind.WORD and found[-1].value == "as":
        found.pop()
    return text[: found[-1].end]


def _check_items(items: Sequence[Item], query: LegacyQuery, table: Table) -> None:
    names: set[str] = set()
    for item in items:
        if item.name in names:
            raise bad(f"two result columns are named {item.name}; give one of them an alias", item.position)
        names.add(item.name)
        if query.window is not None:
            continue
        for call in item.node.find_all(exp.Anonymous):
            if call.this in AGGREGATES:
                raise bad(f"{call.this} needs a window such as INTERVAL or SESSION", position_of(call))
        for column in item.node.find_all(exp.Column):
            if column.name in PSEUDO:
                raise bad(f"{column.name} needs a window such as INTERVAL or SESSION", position_of(column))
    first = items[0].node
    known = table.column(first.name) if isinstance(first, exp.Column) else None
    # what an expression gives is checked where the query is planned
    plain = isinstance(first, exp.Literal) or (known is not None and known.type.name != "TIMESTAMP")
    if query.window is None and plain:
        raise bad(
            f"the first result column must be a time (the key of the result), but it is {items[0].name}",
            query.items[0].position,
        )


def _check_keys(keys: Sequence[PartitionKey]) -> None:
    texts: dict[str, str] = {}
    for key in keys:
        if texts.setdefault(key.name, key.text) != key.text:
            raise bad(f"two items of PARTITION BY are named {key.name}", key.position)


def _check_grouped(
    items: Sequence[Item], keys: Sequence[PartitionKey], table: Table, *, on_super: bool
) -> None:
    """Check a query without aggregates: it must not ask for a column of the rows, since a window has many
    rows. For a query with aggregates, the planner says which columns may stand beside them."""
    if any(is_aggregate(item.node) for item in items):
        return
    grouped = {key.column for key in keys if key.column} | {*PSEUDO, "tbname"}
    if not on_super or "tbname" in {key.column for key in keys}:
        grouped |= {tag.name for tag in table.tags}
    for item in items:
        if any(item.text == key.text for key in keys):
            continue
        for column in item.node.find_all(exp.Column):
            if column.name not in grouped:
                where = position_of(column) if column.this.meta else item.position  # if it comes from a star
                raise bad(f"the column {column.name} is neither aggregated nor in PARTITION BY", where)


def follows_rows(query: LegacyQuery, items: Sequence[Item], table: Table) -> bool:
    """Whether results have the time of their window or row, so that they are found again when these
    change."""
    first = items[0].node
    times = (table.key.name, "_rowts", "_c0")
    return query.window is not None or (isinstance(first, exp.Column) and first.name in times)


def is_start(item: Item) -> bool:
    """Whether a result column is ``_wstart``."""
    return isinstance(item.node, exp.Column) and item.node.name == "_wstart"


def is_aggregate(node: exp.Expr) -> bool:
    """Whether an expression contains a call over several rows."""
    return any(call.this in AGGREGATES for call in node.find_all(exp.Anonymous))


def check_aliases(text: SqlText, keys: Sequence[PartitionKey], what: str) -> None:
    """:raises SqlError: if an expression uses anything but the aliases of PARTITION BY."""
    names = [key.name for key in keys]
    tree = parse_expression(text.text, text.position)
    _check_words(tree)
    for call in tree.find_all(exp.Anonymous):
        if call.this in AGGREGATES:
            raise bad(f"{what}: the aggregate {call.this} is not allowed", position_of(call))
    for column in tree.find_all(exp.Column):
        if column.table or column.name not in names:
            known = f"the aliases are {', '.join(names)}" if names else "there is no PARTITION BY"
            raise bad(f"{what}: {column.name} is not an alias in PARTITION BY; {known}", position_of(column))
