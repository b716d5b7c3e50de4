"""Tokens: what is written comes back, at its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import Position, SqlError
from millrace_core.language.cursor import Cursor
from millrace_core.language.lexer import Lexer, quote, quote_name, tokens, unquote
from millrace_core.language.words import TokenKind

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = texts.filter(bool)


@given(texts)
def test_strings_round_trip(value: str) -> None:
    for literal in (quote(value), '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'):
        (token,) = tokens(literal)
        assert token.kind is TokenKind.STRING
        # LIKE's and hexadecimal escapes keep their backslash
        assert token.value == value


@given(names)
def test_quoted_names_round_trip(name: str) -> None:
    (token,) = tokens(quote_name(name))
    assert (token.kind, token.value) == (TokenKind.QUOTED, name)


pieces = st.sampled_from(
    ["abc", "环境温度", "_twstart", "`A b`", "'it''s'", '"x"', "12", "0x1F", "1.5", ".5", "1e5", "10s", "1n",
     "500a", "%%tbname", "%%trows", "%%1", "<=", "<>", "(", ")", ",", "|", "->", ";", "=", "-"]
)  # fmt: skip
blanks = st.sampled_from([" ", "\n", "\t ", " -- it's\n", " /* ' */ ", "\r\n"])


@given(st.lists(st.tuples(pieces, blanks), min_size=1))
def test_blanks_and_comments_change_nothing(parts: list[tuple[str, str]]) -> None:
    text = "".join(piece + blank for piece, blank in parts)
    found = tokens(text)
    assert [token.text for token in found] == [piece for piece, _ in parts]
    lexer = Lexer(text)
    offset = 0
    for token, (piece, blank) in zip(found, parts, strict=True):
        before = text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        assert lexer.position(token.start) == Position(line, column)
        offset += len(piece) + len(blank)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("Meters", TokenKind.WORD, "meters"),
        ("`Meters`", TokenKind.QUOTED, "Meters"),
        ("10S", TokenKind.DURATION, "10s"),
        ("0.5s", TokenKind.DURATION, "0.5s"),
        ("1e5", TokenKind.FLOAT, "1e5"),
        ("7.", TokenKind.FLOAT, "7."),
        ("0b101", TokenKind.INTEGER, "0b101"),
        ("%%TBNAME", TokenKind.PLACEHOLDER, "%%tbname"),
        (r"'a\'b\n\%\_\x1\q'", TokenKind.STRING, "a'b\n\\%\\_\\x1q"),
    ],
)
def test_kinds(text: str, kind: TokenKind, value: str) -> None:
    (token,) = tokens(text)
    assert (token.kind, token.value) == (kind, value)


@given(texts)
def test_any_text_is_tokens_or_a_placed_error(text: str) -> None:
    try:
        found = tokens(text)
    except SqlError as error:
        assert error.position is not None
        return
    for token in found:
        assert text[token.start : token.end] == token.text


def ends(text: str, read: Callable[[Cursor], object]) -> tuple[str, str]:
    """What is read, without comments and blanks, or the error; and what stands behind it."""
    cursor = Cursor(text)
    try:
        read(cursor)
    except SqlError as error:
        return str(error), ""
    return " ".join(t.text for t in tokens(text[: cursor.place])), cursor.peek().text


@given(st.lists(st.tuples(pieces, blanks | st.just("")), min_size=1))
def test_the_end_of_a_query_is_found_without_its_tokens(parts: list[tuple[str, str]]) -> None:
    """Quickly and token by token it is the same place."""
    text = "(x)" + "".join(piece + blank for piece, blank in parts)
    try:
        tokens(text)
    except SqlError:
        return  # "12abc": the quick way leaves it to whoever reads the query
    slow = ends(text, lambda cursor: cursor.until("a query", lambda: False))
    assert ends(text, Cursor.to_end) == slow


@pytest.mark.parametrize("text", ["select 'it", "select (`a", "select 1 /* x", 'select "\\"'])
def test_what_has_no_end_is_found_without_tokens_too(text: str) -> None:
    assert ends(text, Cursor.to_end) == ends(text, lambda cursor: cursor.until("a query", lambda: False))


def test_an_origin_moves_positions() -> None:
    lexer = Lexer("a\n b", Position(3, 10))
    assert lexer.position(0) == Position(3, 10)
    assert lexer.position(3) == Position(4, 2)


def test_unquote_leaves_other_quotes() -> None:
    assert unquote("'a\"\"b'") == 'a""b'


def test_a_long_unterminated_string_is_refused_at_once() -> None:
    with pytest.raises(SqlError, match="unterminated string"):
        tokens("'" + "ab\\'" * 50_000)
