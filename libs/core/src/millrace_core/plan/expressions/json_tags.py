"""JSON tags: ``tag->'key'`` and ``tag CONTAINS 'key'``.

A tag is the text of a JSON object that contains no objects. ``->`` gives the value as JSON text (a string
with its quotes); null is NULL. In a comparison the value is taken as the type of the other side; if it is not
of that type, it is NULL and the comparison fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query import nodes
from millrace_core.model.types import DataType
from millrace_core.plan.types.typed import (
    BOOL,
    DOUBLE,
    Typed,
    fail,
    number,
    spark_type,
    typed,
    with_type,
    wrap,
)

JSON = DataType("JSON")
TEXT = DataType("VARCHAR", 4096)
_VALUE = r'("(?:[^"\\]|\\.)*"|[^,}\s]+)'


def type_get(node: exp.Expr) -> exp.Expr:
    """``tag->'key'``; :raises SqlError: if it is not a tag of type JSON, or the key is not constant."""
    _check(node, "->")
    return with_type(node, JSON)


def type_contains(node: exp.Expr) -> exp.Expr:
    _check(node, "CONTAINS")
    return with_type(node, BOOL)


def _check(node: exp.Expr, what: str) -> None:
    if typed(node.this).type != JSON or isinstance(node.this, nodes.JsonGet):
        message = f"{what} needs a tag of type JSON, not {typed(node.this).type}"
        raise fail(ErrorCode.TYPE_MISMATCH, message, node)
    key = node.expression
    if not (isinstance(key, exp.Literal) and key.is_string and key.name):
        raise fail(ErrorCode.INVALID_VALUE, f"{what} needs a key in quotes", node)


def compared(sides: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The sides of a comparison; values of JSON tags get the type of the other side."""
    others = [typed(side) for side in sides if not isinstance(side, nodes.JsonGet)]
    if len(others) == len(sides):
        return list(sides)
    wanted = next((kind for type_ in others if (kind := _kind(type_)) is not None), None)
    return [_as(side, wanted) if isinstance(side, nodes.JsonGet) and wanted else side for side in sides]


def as_text(side: exp.Expr) -> exp.Expr:
    """A value of a tag as a string (LIKE, MATCH)."""
    return _as(side, TEXT) if isinstance(side, nodes.JsonGet) else side


def _as(side: exp.Expr, wanted: DataType) -> exp.Expr:
    return with_type(side, wanted)


def _kind(type_: Typed) -> DataType | None:
    if type_.type == BOOL:
        return BOOL
    if type_.number or type_.timestamp:
        return DOUBLE
    return TEXT if type_.text and not type_.null else None


def lower_get(tag: exp.Expr, key: str, wanted: Typed) -> exp.Expr:
    """The value under a key, of the wanted type."""
    pattern = f"{_key(key)}{_VALUE}"
    found = exp.Anonymous(this="REGEXP_EXTRACT", expressions=[tag, exp.Literal.string(pattern), number(2)])
    raw = exp.Nullif(this=found, expression=exp.Literal.string(""))
    raw = exp.Nullif(this=raw, expression=exp.Literal.string("null"))  # the string "null" would have quotes
    if wanted.type == JSON:
        return raw
    if wanted.type == DOUBLE:
        return exp.TryCast(this=raw, to=spark_type(DOUBLE))
    if wanted.type == BOOL:
        ifs = [
            exp.If(this=exp.Literal.string(text), true=exp.Boolean(this=text == "true"))
            for text in ("true", "false")
        ]
        return exp.Case(this=raw, ifs=ifs)
    quoted = exp.Like(this=raw, expression=exp.Literal.string('"%'))
    whole = exp.Concat(expressions=[exp.Literal.string('{"v":'), raw.copy(), exp.Literal.string("}")])
    path = exp.Literal.string("$.v")
    string = exp.Anonymous(this="GET_JSON_OBJECT", expressions=[whole, path])
    return exp.Case(ifs=[exp.If(this=quoted, true=string)])


def lower_contains(tag: exp.Expr, key: str) -> exp.Expr:
    """Whether the tag has the key; false for a tag that is NULL."""
    found = exp.RegexpLike(this=wrap(tag), expression=exp.Literal.string(_key(key)))
    return exp.Coalesce(this=found, expressions=[exp.Boolean(this=False)])


def _key(key: str) -> str:
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    return rf'(^|[{{,])\s*"{re.escape(quoted)}"\s*:\s*'
