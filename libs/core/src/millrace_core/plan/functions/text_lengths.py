"""How long the texts of a function's result can get, as far as its arguments tell during planning.

The type of a result is never too short for its values: whatever is stored under it is stored whole.
VARCHAR(n) has n bytes, NCHAR(n) has n characters; a result is NCHAR as soon as one of its texts is.
If nothing is known (``repeat`` by a column's value, ``group_concat``), the type is the longest that
a column can have.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.model.schema import Precision
from millrace_core.model.types import MAX_LENGTH, DataType
from millrace_core.plan.functions.format_words import words_of
from millrace_core.plan.types.typed import Typed, bytes_of, room, text_of

LONGEST = DataType("VARCHAR", MAX_LENGTH)
REPLACEMENT = 3
"""Bytes of U+FFFD, which replaces each byte that is not valid text."""
_SIGN = {"zone": 1}
"""Characters that a word of a time's format has in addition to its digits."""


def concat_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return text_of(sum(map(room, types)), types)


def concat_ws_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    separator, *parts = types
    return text_of(sum(map(room, parts)) + (len(parts) - 1) * room(separator), types)


def replace_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    """As long as if every place were replaced; the text looked for may be as short as one character."""
    whole, _, put = types
    made = [whole, put]
    length = room(whole)
    what = node.expressions[1]
    fewest = 1
    if isinstance(what, exp.Literal):
        in_characters = whole.type.name == "NCHAR"
        fewest = len(what.name) if in_characters else len(what.name.encode())
    if fewest:
        length = max(length, length + length // fewest * (room(put) - fewest))
    return text_of(length, made)


def repeat_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    count = node.expressions[1]
    times = int(count.name) if isinstance(count, exp.Literal) and count.name.isdigit() else MAX_LENGTH
    return text_of(room(types[0]) * times, types[:1])


def to_base64_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return text_of(-(-bytes_of(types[0]) // 3) * 4, [])


def from_base64_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return text_of(-(-bytes_of(types[0]) * 3 // 4) * REPLACEMENT, [])


def char_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    """Each number gives eight bytes at most."""
    return text_of(8 * REPLACEMENT * len(types), [])


def formatted_length(pattern: str) -> int:
    """The most bytes of a time in the format."""
    return sum(
        len(word.encode()) if isinstance(word, str) else word.width + _SIGN.get(word.field, 0)
        for word in words_of(pattern)
    )


def to_char_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    pattern = node.expressions[1]
    known = isinstance(pattern, exp.Literal) and pattern.is_string
    return text_of(formatted_length(pattern.name) if known else MAX_LENGTH, [])
