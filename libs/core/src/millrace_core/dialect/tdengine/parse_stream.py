"""Statements on streams (seed 000). CREATE STREAM is split into its clauses; ``lower`` checks them."""

from __future__ import annotations

from functools import partial
from typing import Any

from millrace_core.errors import Position, SqlError
from millrace_core.language.cursor import Cursor, check_length
from millrace_core.language.data_types import data_type
from millrace_core.language.statements import (
    Argument,
    CreateStream,
    DiagnoseStream,
    DropStream,
    Literal,
    Name,
    NotifyClause,
    OptionClause,
    OutputColumn,
    PauseStream,
    RecalculateStream,
    ResumeStream,
    SqlText,
    StartStream,
    StopStream,
    TagDefinition,
    TriggerClause,
    VerifyStream,
)  # fmt: skip
from millrace_core.language.stream_words import FIRST, OLDER_OPTIONS, check_unmixed, mixed
from millrace_core.language.words import TokenKind
from millrace_core.trigger.types import trigger_types

CLAUSES = ("stream_options", "notify", "notify_options", "into", "output_subtable", "tags", "as")

ORDER = {
    "table": "FROM", "partition": "PARTITION BY", "options": "STREAM_OPTIONS", "notify": "NOTIFY",
    "into": "INTO", "subtable": "OUTPUT_SUBTABLE", "columns": "(columns)", "tags": "TAGS", "query": "AS",
}  # fmt: skip
"""The clauses after the trigger, in order: field of CreateStream -> words."""


def create_stream(c: Cursor) -> CreateStream:
    if_not_exists = c.exists(negated=True)
    name = c.qualified("a stream name")
    check_length(name, "stream")
    trigger = _trigger(c)
    clauses: dict[str, Any] = {}
    if c.take("from"):
        clauses["table"] = c.qualified("the name of the trigger table")
    if c.take("partition", "by"):
        clauses["partition"] = _partition(c)
    while c.at("stream_options") or c.at("notify"):
        clause = "options" if c.at("stream_options") else "notify"
        if clause in clauses:
            raise c.unexpected("INTO or AS (each clause can be given only once)")
        clauses[clause] = _options(c) if clause == "options" else _notify(c)
    if c.take("into"):
        clauses["into"] = c.qualified("the name of the output table")
        check_length(clauses["into"], "table")
    if c.take("output_subtable"):
        clauses["subtable"] = _in_parentheses(c, "an expression for the sub-table's name")
    if c.at("("):
        clauses["columns"] = c.listed(lambda: _output_column(c))
    if c.take("tags"):
        clauses["tags"] = c.listed(lambda: _tag(c))
    if c.take("as"):
        clauses["query"] = c.until("a query", lambda: c.at("notify", "("))
        if c.at("notify"):
            raise mixed(
                "NOTIFY after the query", c.here(), "in the newer one it comes before INTO", older=False
            )
    if c.peek().kind is not TokenKind.END and not c.at(";"):
        check_unmixed(c, trigger.keyword, older=False)
        raise c.unexpected(_expected(clauses))
    begins = c.position(len(c.text) - len(c.text.lstrip()))
    return CreateStream(name, c.text.strip(), trigger, if_not_exists, begins=begins, **clauses)


def _expected(clauses: dict[str, Any]) -> str:
    """The clauses that may still come, for the error's text."""
    last = max((list(ORDER).index(clause) for clause in clauses), default=-1)
    left = list(ORDER.values())[last + 1 :]
    return ", ".join(left) or "the end of the statement"


def _trigger(c: Cursor) -> TriggerClause:
    where = c.here()
    for found in trigger_types():
        if c.take(found.keyword):
            break
    else:
        known = ", ".join(known.keyword for known in trigger_types())
        older = ", ".join(FIRST).upper()
        raise c.unexpected(f"a trigger: {known} (or, in the older dialect, one of {older})")
    syntax = found.syntax
    arguments = _conditions(c, syntax.conditions) if syntax.conditions else _arguments(c)
    following: tuple[Argument, ...] = ()
    if syntax.then is not None:
        c.expect(syntax.then)
        following = _arguments(c)
    true_for, at = None, c.here()
    if c.take("true_for"):
        true_for = c.listed(lambda: c.argument("a duration"))[0]
    return TriggerClause(found.keyword, arguments, where, following, true_for, at if true_for else None)


def _arguments(c: Cursor) -> tuple[Argument, ...]:
    return c.listed(lambda: c.argument("an argument"))


def _conditions(c: Cursor, heads: tuple[str, ...]) -> tuple[Argument, ...]:
    """``(head condition …)``, such as ``(START WITH condition END WITH condition)``."""
    found: list[Argument] = []
    words = [head.split() for head in heads]
    c.expect("(")
    for head, following in zip(words, [*words[1:], None], strict=True):
        c.expect(*head)
        text = c.until("a condition", partial(_comes, c, following))
        found.append(Argument(text.text, text.position))
    c.expect(")")
    return tuple(found)


def _comes(c: Cursor, words: list[str] | None) -> bool:
    return words is not None and c.at(*words)


def _partition(c: Cursor) -> tuple[Name, ...]:
    names = [c.name("tbname or a tag")]
    while c.take(","):
        names.append(c.name("tbname or a tag"))
    return tuple(names)


def _options(c: Cursor) -> tuple[OptionClause, ...]:
    c.expect("stream_options")
    return c.listed(lambda: _option(c), ("|",))


def _option(c: Cursor) -> OptionClause:
    name = c.name("an option")
    keyword = name.text.upper()
    if name.text in OLDER_OPTIONS:
        raise mixed(keyword, name.position, "STREAM_OPTIONS takes the options of the newer one", older=False)
    if c.peek().kind in (TokenKind.INTEGER, TokenKind.DURATION):
        why = "STREAM_OPTIONS belongs to the newer one, where values are in parentheses"
        raise mixed(f"{keyword} {c.peek().text}", name.position, why, older=False)
    try:
        return OptionClause(keyword, name.position, _option_arguments(c, keyword))
    except SqlError as error:
        raise SqlError(error.code, f"{keyword}: {error.message}", error.position) from error


def _option_arguments(c: Cursor, keyword: str) -> tuple[Argument, ...] | None:
    """The arguments in parentheses after an option; None if there are no parentheses."""
    if c.take("(", ")"):
        return ()
    if keyword not in ("EVENT_TYPE", "PRE_FILTER"):
        return _arguments(c) if c.at("(") else None
    if not c.at("("):
        return None
    # in EVENT_TYPE the bar separates values; in an expression it is an operator
    separators = ("|", ",") if keyword == "EVENT_TYPE" else ()
    c.expect("(")
    found = [c.until("an argument", lambda: any(c.at(s) for s in separators))]
    while any(c.take(s) for s in separators):
        found.append(c.until("an argument", lambda: any(c.at(s) for s in separators)))
    c.expect(")")
    return tuple(Argument(text.text, text.position) for text in found)


def _event(c: Cursor) -> Name:
    """An event type, bare or quoted."""
    return c.string("an event type") if c.peek().kind is TokenKind.STRING else c.name("an event type")


def _notify(c: Cursor) -> NotifyClause:
    where_ = c.expect("notify")
    urls = c.listed(lambda: c.string("an address in quotes"))
    events = c.listed(lambda: _event(c), ("|", ",")) if c.take("on") else None
    where: SqlText | None = None
    if c.take("where"):
        where = c.until("a condition", lambda: any(c.at(clause) for clause in CLAUSES))
    options = c.listed(lambda: c.name("an option"), ("|",)) if c.take("notify_options") else ()
    return NotifyClause(urls, where_, events, where, options)


def _in_parentheses(c: Cursor, what: str) -> SqlText:
    c.expect("(")
    text = c.until(what, lambda: False)
    c.expect(")")
    return text


def _output_column(c: Cursor) -> OutputColumn:
    name = c.name("a column name")
    check_length(name, "column")
    return OutputColumn(name, c.take("composite", "key") or c.take("primary", "key"))


def _tag(c: Cursor) -> TagDefinition:
    name = c.name("a tag name")
    check_length(name, "tag")
    type_ = data_type(c)
    comment = c.string("a comment").text if c.take("comment") else ""
    if c.at(",") or c.at(")"):
        why = "in the newer one the type is followed by AS and an expression"
        raise mixed(f"the tag {name.text} without an expression", c.here(), why, older=False)
    c.expect("as")
    return TagDefinition(name, type_, c.until("an expression", lambda: c.at(",")), comment)


def drop_stream(c: Cursor) -> DropStream:
    if_exists = c.exists(negated=False)
    return DropStream(c.qualified("a stream name"), if_exists)


def start_stream(c: Cursor) -> StartStream:
    if_exists, ignore = False, False
    while True:
        if c.at("if", "exists"):
            if_exists = c.exists(negated=False)
        elif c.take("ignore", "untreated"):
            ignore = True
        else:
            return StartStream(c.qualified("a stream name"), if_exists, ignore)


def stop_stream(c: Cursor) -> StopStream:
    if_exists = c.exists(negated=False)
    return StopStream(c.qualified("a stream name"), if_exists)


def pause_stream(c: Cursor) -> PauseStream:
    if_exists = c.exists(negated=False)
    return PauseStream(c.qualified("a stream name"), if_exists)


def resume_stream(c: Cursor) -> ResumeStream:
    started = start_stream(c)
    return ResumeStream(started.name, started.if_exists, started.ignore_untreated)


def recalculate_stream(c: Cursor) -> RecalculateStream:
    name = c.qualified("a stream name")
    c.expect("from")
    start = _time(c)
    end = _time(c) if c.take("to") else None
    return RecalculateStream(name, start, end)


def diagnose_stream(c: Cursor) -> DiagnoseStream:
    return DiagnoseStream(c.qualified("a stream name"), *_limit(c))


def verify_stream(c: Cursor) -> VerifyStream:
    name = c.qualified("a stream name")
    c.expect("from")
    start = _time(c)
    c.expect("to")
    return VerifyStream(name, start, _time(c), *_limit(c))


def _limit(c: Cursor) -> tuple[int, Position] | tuple[None, None]:
    """``LIMIT n``, if it is there, and where its number stands."""
    if not c.take("limit"):
        return None, None
    where = c.here()
    return c.integer("a number of rows"), where


def _time(c: Cursor) -> Literal:
    text = c.until("a time", lambda: c.at("to") or c.at("limit"))
    return Literal(text.text, text.position)
