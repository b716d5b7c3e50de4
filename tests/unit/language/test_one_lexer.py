"""What a query reads and what DDL and INSERT read are the same names, numbers, texts and comments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from sqlglot import exp

from millrace_core.dialect.tdengine import parse
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language import lexer
from millrace_core.language.arguments import duration
from millrace_core.language.lexer import quote_name
from millrace_core.language.query import nodes, parse_expression, parse_query
from millrace_core.language.query.tokens import query_tokens
from millrace_core.language.statements import Argument, CreateTable, Literal
from millrace_core.language.times import TimeContext
from millrace_core.language.values import literal_value
from millrace_core.language.words import TokenKind
from millrace_core.model.rules import ALL_UNITS, DurationRule
from millrace_core.model.schema import Column
from millrace_core.model.types import DataType

SESSION = TimeContext("ms", 0, "UTC")
START = Position(1, 1)
CHARS = "ab0 '\"`\\\n%_xntr-/*²é€ſ　.$#"

texts = some.text(CHARS, max_size=12)


@some.composite
def strings(draw: some.DrawFn) -> str:
    """A string as a user may write it: any characters, escaped or not, as long as it ends where it should."""
    quote = draw(some.sampled_from("'\""))
    parts = some.one_of(
        some.sampled_from([char for char in CHARS if char not in f"{quote}\\"]),
        some.sampled_from([f"\\{char}" for char in CHARS]),
        some.just(quote * 2),
    )
    return quote + "".join(draw(some.lists(parts, max_size=10))) + quote


@some.composite
def names(draw: some.DrawFn) -> str:
    """A name, back-quoted or of letters of any script that begins none of the words of the language."""
    if draw(some.booleans()):
        return quote_name(draw(some.text(CHARS, min_size=1, max_size=8)))
    return "q" + draw(some.text("aZ0_éßŻжяſ名²", min_size=1, max_size=8))


comments = some.one_of(
    some.text("ab'\"`*\\ ", max_size=6).map(lambda text: f"--{text}\n"),
    some.text("ab'\"`-/\\\n ", max_size=6).map(lambda text: f"/*{text}*/"),
    some.sampled_from([" ", "\n", "\t", "\r\n", "　", "\xa0"]),
)


@given(strings())
def test_a_string_means_the_same_in_insert_and_in_a_query(text: str) -> None:
    """VARBINARY and LIKE apart, which read further what a backslash leaves."""
    inserted = literal_value(Literal(text, START), Column("a", DataType("VARCHAR", 200)), SESSION)
    queried = parse_expression(text)
    assert isinstance(queried, exp.Literal) and queried.is_string
    assert queried.name == inserted == lexer.unquote(text)


@given(names(), comments, comments)
def test_a_name_is_the_same_in_ddl_and_in_a_query(name: str, before: str, behind: str) -> None:
    made = parse(f"CREATE TABLE{before} t (ts{behind} TIMESTAMP,{before}{name}{behind} INT)")
    assert isinstance(made, CreateTable)
    queried = parse_query(f"SELECT{behind} {before}{name}{behind} FROM{before} t")
    column = queried.expressions[0]
    assert isinstance(column, exp.Column)
    assert column.name == made.columns[1].name.text
    alone = parse_expression(f"{before}{name}{behind}", Position(3, 5))
    where = lexer.Lexer(f"{before}{name}", Position(3, 5)).position(len(before))
    assert nodes.position_of(alone) == where


NUMBERS = some.one_of(
    some.integers(0, 1 << 40).map(str),
    some.integers(0, 1 << 30).map(hex),
    some.integers(0, 1 << 20).map(bin),
    some.from_regex(r"\A\d{1,6}\.\d{0,4}([eE][+-]?\d{1,2})?\Z"),
    some.from_regex(r"\A\.\d{1,4}([eE][+-]?\d)?\Z"),
    some.from_regex(r"\A\d{1,4}[eE][+-]?\d\Z"),
).filter(str.isascii)


@given(NUMBERS)
def test_a_number_is_the_same_in_insert_and_in_a_query(text: str) -> None:
    inserted = literal_value(Literal(text, START), Column("a", DataType("DOUBLE")), SESSION)
    queried = parse_expression(text)
    assert isinstance(queried, exp.Literal) and not queried.is_string
    assert float(queried.name) == inserted


@given(some.integers(1, 10**6), some.sampled_from(ALL_UNITS + ALL_UNITS.upper()))
def test_a_duration_is_the_same_in_a_trigger_and_in_a_query(count: int, unit: str) -> None:
    text = f"{count}{unit}"
    of_trigger = duration(Argument(text, START), "SLIDING", DurationRule(ALL_UNITS), None)
    queried = parse_expression(text)
    assert isinstance(queried, nodes.DurationLiteral)
    assert (queried.this, queried.args["unit"]) == (of_trigger.value, of_trigger.unit)


@given(texts)
def test_no_text_is_read_by_one_and_refused_by_the_other(text: str) -> None:
    """Any text at all: both find the same tokens at the same places, or the same error at the same place."""

    def read(tokens: object) -> object:
        try:
            return tokens(text, Position(2, 9))  # type: ignore[operator]
        except SqlError as error:
            return error.code, error.message, error.position

    ours, theirs = read(lexer.tokens), read(query_tokens)
    if isinstance(ours, tuple):
        assert theirs == ours
        return
    assert isinstance(ours, list) and isinstance(theirs, list)
    places = [token.start for token in ours]
    # a duration and a placeholder are two tokens for the grammar
    split = [t.end - 1 if t.kind is TokenKind.DURATION else t.start + 2
             for t in ours if t.kind in (TokenKind.DURATION, TokenKind.PLACEHOLDER)]  # fmt: skip
    assert [token.start for token in theirs] == sorted(places + split)


@pytest.mark.parametrize("sql", [
    "SELECT a FROM t GROUP /* of */ BY a", "SELECT a FROM t ORDER -- by what\n BY a",
    "SELECT a /* no /* nesting */ FROM t",
])  # fmt: skip
def test_comments_stand_wherever_a_blank_may(sql: str) -> None:
    assert isinstance(parse_query(sql), exp.Select)


@pytest.mark.parametrize(("sql", "column"), [("SELECT a FROM €t", 15), ("SELECT €", 8), ("SELECT 1_000", 8)])
def test_what_is_no_token_is_told_with_its_place(sql: str, column: int) -> None:
    with pytest.raises(SqlError) as raised:
        parse_query(sql)
    assert (raised.value.code, raised.value.position) == (ErrorCode.SYNTAX, Position(1, column))
