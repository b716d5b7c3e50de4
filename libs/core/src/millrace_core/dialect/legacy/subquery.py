"""The subquery of an older stream, clause by clause: SELECT … FROM one table [WHERE] [PARTITION BY] [window]
[FILL]. Any other clause of a SELECT is refused by its name."""

from __future__ import annotations

from typing import Any

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor
from millrace_core.language.statements import Argument, LegacyQuery, SqlText, TriggerClause
from millrace_core.language.words import TokenKind

WINDOWS = ("interval", "session", "state_window", "event_window", "count_window")
REFUSED = (
    "order", "group", "having", "limit", "slimit", "offset", "soffset", "union", "join", "inner", "left",
    "right", "full", "range", "every", "true_for", "anomaly_window",
)  # fmt: skip
"""Clauses of a SELECT that no stream of this dialect has."""
BEHIND = frozenset({"where", "partition", *WINDOWS, "fill", "notify", *REFUSED})
"""Words that end a clause after FROM, unless they are a call in an expression."""


def subquery(c: Cursor) -> LegacyQuery:
    """The query after AS, up to NOTIFY or the end."""
    if c.at("("):
        raise _refused("a query in parentheses", c)
    begin = c.peek().start
    c.expect("select")
    for word in ("distinct", "tags"):
        if c.at(word):
            raise _refused(f"SELECT {word.upper()}", c)
    items = [c.until("a result column", lambda: c.at(",") or c.at("from"))]
    while c.take(","):
        items.append(c.until("a result column", lambda: c.at(",") or c.at("from")))
    c.expect("from")
    if c.at("("):
        raise _refused("a subquery in FROM", c)
    if c.peek().kind is TokenKind.PLACEHOLDER:
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{c.peek().text} belongs to the newer stream dialect; in the older one, name a table",
            c.here(),
        )
    table = c.qualified("the name of the source table")
    clauses: dict[str, Any] = {"alias": _alias(c)}
    if c.at(","):
        raise _refused("a second table", c)
    _check_refused(c)
    if c.take("where"):
        clauses["where"] = c.until("a condition", lambda: _ends(c))
        _check_refused(c)
    if c.take("partition", "by"):
        clauses["partition"] = _partition(c)
        _check_refused(c)
    if (window := _window(c)) is not None:
        clauses["window"] = window
        _check_refused(c)
    if (fill := _fill(c)) is not None:
        clauses["fill"] = fill
        _check_refused(c)
    _check_end(c, clauses)
    end = c.peek().start
    text = SqlText(c.text[begin:end].rstrip(), c.position(begin))
    return LegacyQuery(text, tuple(items), table, **clauses)


def _alias(c: Cursor) -> str | None:
    if c.take("as"):
        return c.name("a name for the table").text
    if c.peek().kind not in (TokenKind.WORD, TokenKind.QUOTED) or _clause(c) is not None:
        return None
    place = c.place
    name = c.name("a name").text
    if c.at("("):  # not a clause here
        c.place = place
        return None
    return name


def _refused(what: str, c: Cursor) -> SqlError:
    return SqlError(
        ErrorCode.BAD_STREAM,
        f"{what} is not allowed in the query of a stream of the older dialect",
        c.here(),
    )


def _check_refused(c: Cursor) -> None:
    for word in REFUSED:
        if c.at(word):
            raise _refused(word.upper(), c)


def _ends(c: Cursor) -> bool:
    """Whether a clause begins here. ``left(`` and ``interval`` inside a call do not count."""
    word = _clause(c)
    return word is not None and not (word in ("left", "right") and c.at(word, "("))


def _clause(c: Cursor) -> str | None:
    """The word of :data:`BEHIND` that comes next, if any. This is called before each token, of which there
    may be tens of thousands, so the token is read only once."""
    token = c.peek()
    return token.value if token.kind is TokenKind.WORD and token.value in BEHIND else None


def _partition(c: Cursor) -> tuple[SqlText, ...]:
    """Expressions with their aliases, as written."""
    found = [c.until("tbname, a tag, a column or an expression", lambda: c.at(",") or _ends(c))]
    while c.take(","):
        found.append(c.until("tbname, a tag, a column or an expression", lambda: c.at(",") or _ends(c)))
    return tuple(found)


def _window(c: Cursor) -> TriggerClause | None:
    where = c.here()
    keyword = next((word for word in WINDOWS if c.take(word)), None)
    if keyword is None:
        return None
    if keyword == "event_window":
        c.expect("start", "with")
        start = c.until("a condition", lambda: c.at("end", "with"))
        c.expect("end", "with")
        end = c.until("a condition", lambda: _ends(c))
        conditions = (Argument(start.text, start.position), Argument(end.text, end.position))
        return TriggerClause("EVENT_WINDOW", conditions, where)
    arguments = c.listed(lambda: c.argument("an argument"))
    sliding: tuple[Argument, ...] = ()
    if keyword == "interval":
        # without SLIDING each window begins where the last one ends
        sliding = c.listed(lambda: c.argument("a duration")) if c.take("sliding") else arguments[:1]
    return TriggerClause(keyword.upper(), arguments, where, sliding)


def _fill(c: Cursor) -> Argument | None:
    where = c.here()
    if not c.take("fill"):
        return None
    c.expect("(")
    found = c.until("a FILL mode", lambda: False)
    c.expect(")")
    return Argument(found.text, where)


def _check_end(c: Cursor, clauses: dict[str, Any]) -> None:
    if c.peek().kind is TokenKind.END or c.at(";") or c.at("notify"):
        return
    later = [
        word
        for word, clause in (("WHERE", "where"), ("PARTITION BY", "partition"), ("a window", "window"))
        if not clauses.keys() & {clause, "window", "fill"}
    ]
    if "window" in clauses and "fill" not in clauses:
        later.append("FILL")
    raise c.unexpected(", ".join([*later, "NOTIFY or the end of the statement"]))
