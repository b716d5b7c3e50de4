"""Types in the form in which a statement names them."""

from __future__ import annotations

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor
from millrace_core.model.types import ALIASES, MAX_LENGTH, TYPES, DataType

SIZED = {"VARCHAR": MAX_LENGTH, "VARBINARY": MAX_LENGTH, "NCHAR": MAX_LENGTH // 4}
"""Types that need a length, and the largest length of each."""
KEY_TYPES = frozenset({"INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "VARCHAR"})
"""Types of the second column of a composite key."""


def data_type(c: Cursor) -> DataType:
    """``INT [UNSIGNED]``, ``VARCHAR(n)`` …; :raises SqlError: for an unknown type or length."""
    name = c.name("a data type")
    text = ALIASES.get(name.text.upper(), name.text.upper())
    if c.take("unsigned"):
        text += " UNSIGNED"
    if text not in TYPES:
        raise SqlError(ErrorCode.INVALID_VALUE, f"unknown data type {text}", name.position)
    if not c.take("("):
        if text in SIZED:
            raise SqlError(
                ErrorCode.INVALID_VALUE, f"{text} needs a length, such as {text}(16)", name.position
            )
        return DataType(text)
    where = c.here()
    length = c.integer("a length")
    c.expect(")")
    if text not in SIZED:
        raise SqlError(ErrorCode.INVALID_VALUE, f"{text} does not take a length", where)
    if not 1 <= length <= SIZED[text]:
        raise SqlError(
            ErrorCode.INVALID_VALUE, f"{text}({length}): the length must be from 1 to {SIZED[text]}", where
        )
    return DataType(text, length)
