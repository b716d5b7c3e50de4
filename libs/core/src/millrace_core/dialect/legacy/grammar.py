"""The grammar of CREATE STREAM in the older dialect (seed 002); ``lower`` checks the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace_core.dialect.legacy.subquery import subquery
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor, check_length
from millrace_core.language.data_types import data_type
from millrace_core.language.statements import (
    Argument,
    CreateLegacyStream,
    LegacyNotify,
    LegacyOption,
    LegacyTag,
    Name,
    OutputColumn,
)  # fmt: skip
from millrace_core.language.stream_words import OPTIONS, check_unmixed, mixed
from millrace_core.language.words import TokenKind

MODES = ("at_once", "window_close", "max_delay", "force_window_close", "continuous_window_close")


def create_stream(c: Cursor) -> CreateLegacyStream:
    """What follows CREATE STREAM, up to the end of the statement.

    :raises SqlError: what was expected, and where; for a word of the newer dialect it says so.
    """
    if_not_exists = c.exists(negated=True)
    name = _name(c)
    first = c.peek().text
    options = _options(c, first)
    check_unmixed(c, first, older=True)
    clauses: dict[str, Any] = {}
    if c.take("into"):
        clauses |= _into(c)
    elif not c.at("as"):
        raise c.unexpected("an option (TRIGGER, WATERMARK, IGNORE, DELETE_MARK, FILL_HISTORY) or INTO")
    check_unmixed(c, first, older=True)
    if (late := next((word for word in OPTIONS if c.at(word)), None)) is not None:
        raise SqlError(
            ErrorCode.SYNTAX, f"{late.upper()} must come after the stream's name and before INTO", c.here()
        )
    where = c.expect("as")
    query = subquery(c)
    if c.at("notify"):
        clauses["notify"] = _notify(c)
    elif "into" not in clauses:
        raise SqlError(ErrorCode.SYNTAX, "INTO is missing: it can be omitted only with NOTIFY", where)
    c.take(";")
    begins = c.position(len(c.text) - len(c.text.lstrip()))
    return CreateLegacyStream(name, c.text.strip(), begins, query, if_not_exists, tuple(options), **clauses)


def _name(c: Cursor) -> Name:
    found = c.qualified("a stream name")
    check_length(found, "stream")
    if found.db is not None:
        raise SqlError(
            ErrorCode.SYNTAX,
            f"the stream {found}: in the older dialect a stream's name has no database; write {found.name}",
            found.position,
        )
    if "." in found.name:
        # a.b is the full name of stream b in database a
        raise SqlError(
            ErrorCode.SYNTAX,
            f"the stream {found.name}: in the older dialect a stream's name cannot contain a dot",
            found.position,
        )
    return Name(found.name, found.position)


# -- options -------------------------------------------------------------------------------------------------


def _options(c: Cursor, first: str) -> list[LegacyOption]:
    found: list[LegacyOption] = []
    while True:
        check_unmixed(c, first, older=True)
        where = c.here()
        read = next((read for words, read in _OPTIONS.items() if c.take(*words)), None)
        if read is None:
            if c.take("ignore"):
                raise c.unexpected("EXPIRED or UPDATE")
            return found
        option = read(c)
        if any(option.keyword == other.keyword for other in found):
            raise SqlError(ErrorCode.SYNTAX, f"the option {option.keyword} is given twice", where)
        found.append(LegacyOption(option.keyword, where, option.value, option.more))


def _trigger(c: Cursor) -> LegacyOption:
    where = c.here()
    mode = next((mode for mode in MODES if c.take(mode)), None)
    if mode is None:
        raise c.unexpected(" or ".join(mode.upper() for mode in MODES))
    more = None
    if mode == "max_delay" or (mode == "continuous_window_close" and c.take("recalculate")):
        more = _value(c, "a duration")
    return LegacyOption("TRIGGER", where, Argument(mode.upper(), where), more)


def _value(c: Cursor, what: str) -> Argument:
    """One token."""
    token = c.peek()
    if token.kind not in (TokenKind.INTEGER, TokenKind.FLOAT, TokenKind.DURATION):
        raise c.unexpected(what)
    c.next()
    return Argument(token.text, c.position(token.start))


def _flag(c: Cursor) -> Argument:
    found = _value(c, "0 or 1")
    if found.text not in ("0", "1"):
        raise SqlError(ErrorCode.SYNTAX, f"expected 0 or 1, found {found.text!r}", found.position)
    return found


def _fill_history(c: Cursor) -> LegacyOption:
    flag, where = _flag(c), c.here()
    more = Argument("ASYNC", where) if c.take("async") else None
    if more is not None and flag.text == "0":
        raise SqlError(ErrorCode.SYNTAX, "ASYNC is allowed only with FILL_HISTORY 1", where)
    return LegacyOption("FILL_HISTORY", where, flag, more)


def _plain(keyword: str, value: Callable[[Cursor], Argument]) -> Callable[[Cursor], LegacyOption]:
    return lambda c: LegacyOption(keyword, c.here(), value(c))


def _duration(c: Cursor) -> Argument:
    return _value(c, "a duration")


_OPTIONS: dict[tuple[str, ...], Callable[[Cursor], LegacyOption]] = {
    ("trigger",): _trigger,
    ("watermark",): _plain("WATERMARK", _duration),
    ("ignore", "expired"): _plain("IGNORE EXPIRED", _flag),
    ("ignore", "update"): _plain("IGNORE UPDATE", _flag),
    ("delete_mark",): _plain("DELETE_MARK", _duration),
    ("fill_history",): _fill_history,
}


def _into(c: Cursor) -> dict[str, Any]:
    """The clauses about the result table."""
    into = c.qualified("the name of the result's super table")
    check_length(into, "table")
    clauses: dict[str, Any] = {"into": into}
    if c.at("("):
        clauses["columns"] = c.listed(lambda: _column(c))
    if c.take("tags"):
        clauses["tags"] = c.listed(lambda: _tag(c))
    if c.take("subtable"):
        c.expect("(")
        clauses["subtable"] = c.until("an expression for the sub-table's name", lambda: False)
        c.expect(")")
    return clauses


# -- the result table ----------------------------------------------------------------------------------------


def _column(c: Cursor) -> OutputColumn:
    name = c.name("a column name")
    if c.peek().kind is TokenKind.WORD and not (c.at("primary") or c.at("composite")):
        raise c.unexpected("a comma (column types come from the query's results)")
    return OutputColumn(name, c.take("primary", "key") or c.take("composite", "key"))


def _tag(c: Cursor) -> LegacyTag:
    name = c.name("a tag name")
    check_length(name, "tag")
    type_ = None if c.at(",") or c.at(")") else data_type(c)
    comment = c.string("a comment").text if c.take("comment") else ""
    return LegacyTag(name, type_, comment)


# -- notifications -------------------------------------------------------------------------------------------


def _notify(c: Cursor) -> LegacyNotify:
    where = c.expect("notify")
    urls = c.listed(lambda: c.string("an address in quotes"))
    c.expect("on")
    events = c.listed(lambda: _event(c))
    flags: dict[str, bool] = {}
    while True:
        # the seed's own example has a semicolon before the options
        if c.at(";", "notify_history") or c.at(";", "on_failure"):
            c.take(";")
        option = c.here()
        if c.take("notify_history"):
            field, value = "history", _flag(c).text == "1"
        elif c.take("on_failure"):
            field, value = "pause_on_failure", c.one_of("drop", "pause") == "pause"
        elif (newer := next((word for word in ("where", "notify_options") if c.at(word)), None)) is not None:
            why = "in the older one only NOTIFY_HISTORY and ON_FAILURE can follow the event types"
            raise mixed(f"{newer.upper()} in NOTIFY", option, why, older=True)
        else:
            return LegacyNotify(urls, where, events, **flags)
        if field in flags:
            raise SqlError(ErrorCode.SYNTAX, "this NOTIFY option is given twice", option)
        flags[field] = value


def _event(c: Cursor) -> Name:
    if c.peek().kind is TokenKind.WORD:
        raise mixed(c.peek().text, c.here(), "in the older one event types are in quotes", older=True)
    return c.string("an event type in quotes")
