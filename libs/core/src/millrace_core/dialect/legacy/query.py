"""What an older stream's subquery says: its groups, its result columns, what is not possible in it; and the
same query over ``%%trows``, as the newer dialect writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.conditions.row import AGGREGATES
from millrace_core.dialect.arguments import bad
from millrace_core.dialect.lexer import Token, TokenKind, quote_name, tokens
from millrace_core.dialect.query import parse_expression, parse_query
from millrace_core.dialect.query.nodes import position_of
from millrace_core.dialect.statements import LegacyQuery, SqlText
from millrace_core.errors import ErrorCode, Position
from millrace_core.model.schema import Table

REFUSED = frozenset({
    "leastsquares", "percentile", "top", "bottom", "elapsed", "interp", "derivative", "irate", "twa",
    "histogram", "diff", "statecount", "stateduration", "csum", "mavg", "sample", "tail", "unique", "mode",
})  # fmt: skip
"""Functions that no stream of this dialect has (seed 002)."""
PSEUDO = ("_wstart", "_wend", "_wduration")


@dataclass(frozen=True, slots=True)
class Key:
    """One of PARTITION BY. ``text``: the expression without its alias; ``column``: what it is if it is
    nothing but tbname or a name."""

    name: str
    text: str
    position: Position
    column: str | None


@dataclass(frozen=True, slots=True)
class Item:
    """A result column. ``name``: its alias, or its text; ``text``: of the expression, without the alias;
    ``position``: where it begins."""

    name: str
    text: str
    node: exp.Expr
    position: Position


def read(query: LegacyQuery, table: Table, *, on_super: bool) -> tuple[tuple[Item, ...], tuple[Key, ...]]:
    """The result columns, ``*`` as what it stands for, and the groups.

    :raises SqlError: for what the dialect does not have: a placeholder, a query inside, a refused function,
        an aggregate without a window, a first column that is not a time, a name twice.
    """
    tree = parse_query(query.text.text, query.text.position)
    for placeholder in tree.find_all(exp.Placeholder):
        raise bad(
            f"{placeholder.name} belongs to the newer stream dialect; a stream of the older one has _wstart, "
            "_wend and _wduration",
            position_of(placeholder),
            ErrorCode.SYNTAX,
        )
    for select in tree.find_all(exp.Select):
        if select is not tree:
            raise bad("a query inside the query is not possible in a stream", position_of(select))
    for call in tree.find_all(exp.Anonymous):
        if call.this in REFUSED:
            raise bad(f"{call.this} is not possible in a stream of the older dialect", position_of(call))
    items = tuple(
        item
        for node, text in zip(tree.expressions, query.items, strict=True)
        for item in _items(node, text, table, on_super=on_super)
    )
    _check_items(items, query, table)
    return items, tuple(
        _key(node, text)
        for node, text in zip(tree.args.get("partition_by") or (), query.partition, strict=True)
    )


def _items(node: exp.Expr, written: SqlText, table: Table, *, on_super: bool) -> list[Item]:
    """One column; of ``*`` all columns of the table, and a super table's tags."""
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


def _key(node: exp.Expr, text: SqlText) -> Key:
    plain = node.unalias()
    column = plain.name if isinstance(plain, exp.Column) and not plain.table else None
    expression = _without_alias(text.text) if isinstance(node, exp.Alias) else text.text
    name = node.alias if isinstance(node, exp.Alias) else column or text.text
    return Key(name, expression, text.position, column)


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
            raise bad(f"two result columns are called {item.name}; give one an alias", item.position)
        names.add(item.name)
        if query.window is not None:
            continue
        for call in item.node.find_all(exp.Anonymous):
            if call.this in AGGREGATES:
                raise bad(f"{call.this} needs a window: INTERVAL, SESSION …", position_of(call))
        for column in item.node.find_all(exp.Column):
            if column.name in PSEUDO:
                raise bad(f"{column.name} needs a window: INTERVAL, SESSION …", position_of(column))
    if query.window is None and not _is_time(items[0].node, table):
        raise bad(
            f"the first result column must be a time, the key of the result; it is {items[0].name}",
            query.items[0].position,
        )


def _is_time(node: exp.Expr, table: Table) -> bool:
    """Whether a first column can be the result's key; what a call gives is told where the query is
    planned."""
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return node.name in ("_rowts", "_c0") or (column is not None and column.type.name == "TIMESTAMP")
    return isinstance(node, exp.Anonymous)


# -- the same query in the newer dialect ---------------------------------------------------------------------


def over_rows(
    query: LegacyQuery, items: Sequence[Item], keys: Sequence[Key], names: Sequence[str], gap: str | None
) -> str:
    """The query over the rows of one trigger, its columns called ``names``. ``gap``: of SESSION, whose
    windows end later by it in this dialect."""
    end = f"(_twend + {gap})" if gap else "_twend"
    length = f"({end} - _twstart)" if gap else "_twduration"
    words = {"_wstart": "_twstart", "_wend": end, "_wduration": length} if query.window else {}
    if any(key.column == "tbname" for key in keys):
        words["tbname"] = "%%tbname"
    texts = [replaced(item.text, words) for item in items]
    if query.window is not None and not is_start(items[0]):
        texts.insert(0, "_twstart")
    # the user's own query, read by the parser, in other words
    return f"SELECT {', '.join(map(_named, texts, names))} FROM %%trows"  # noqa: S608


def over_stretch(query: LegacyQuery, items: Sequence[Item], keys: Sequence[Key], names: Sequence[str]) -> str:
    """The query over the rows of several windows and of what lies between them, with its window and FILL."""
    assert query.window is not None and query.fill is not None, "FILL goes with INTERVAL"
    words = {"tbname": "%%tbname"} if any(key.column == "tbname" for key in keys) else {}
    texts = [replaced(item.text, words) for item in items]
    if not is_start(items[0]):
        texts.insert(0, "_wstart")
    interval, sliding = (
        ", ".join(one.text for one in part) for part in (query.window.arguments, query.window.sliding)
    )
    mode, comma, values = query.fill.text.partition(",")
    # which windows there are says the stretch, whatever the mode
    fill = f"{mode.strip().upper().removesuffix('_F')}{comma}{values}"
    return (
        # the same
        f"SELECT {', '.join(map(_named, texts, names))} FROM %%trows "  # noqa: S608
        f"INTERVAL({interval}) SLIDING({sliding}) FILL({fill})"
    )


def is_start(item: Item) -> bool:
    """Whether a result column is ``_wstart``."""
    return isinstance(item.node, exp.Column) and item.node.name == "_wstart"


def _named(text: str, name: str) -> str:
    return text if text in (name, quote_name(name)) else f"{text} AS {quote_name(name)}"


def replaced(text: str, words: Mapping[str, str]) -> str:
    """The text with these names written otherwise: names of columns, not of calls, nor behind a point."""
    found = tokens(text)
    parts: list[str] = []
    last = 0
    for i, token in enumerate(found):
        new = words.get(token.value) if token.kind in (TokenKind.WORD, TokenKind.QUOTED) else None
        if new is not None and not _is(found, i - 1, ".") and not _is(found, i + 1, "(", "."):
            parts += [text[last : token.start], new]
            last = token.end
    return "".join(parts) + text[last:]


def _is(found: Sequence[Token], i: int, *texts: str) -> bool:
    return 0 <= i < len(found) and found[i].text in texts


def check_aliases(text: SqlText, keys: Sequence[Key], what: str) -> None:
    """:raises SqlError: if an expression uses anything but what PARTITION BY names."""
    names = [key.name for key in keys]
    for column in parse_expression(text.text, text.position).find_all(exp.Column):
        if column.table or column.name not in names:
            known = f"{', '.join(names)} can be used" if names else "there is no PARTITION BY"
            raise bad(f"{what}: {column.name} is not an alias of PARTITION BY; {known}", position_of(column))
