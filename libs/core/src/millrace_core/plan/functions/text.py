"""Scalar functions of text. Lengths and places count characters, except where the name says otherwise."""

from __future__ import annotations

import json
import re
from string import ascii_lowercase, ascii_uppercase

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.types import DataType
from millrace_core.plan.functions.base import (
    Function,
    FunctionCall,
    constant_choice,
    constant_text,
    counted,
    fixed,
    is_null,
    node_of,
    same,
    spark,
)
from millrace_core.plan.functions.casts import convert, plain_text
from millrace_core.plan.functions.formats import format_time
from millrace_core.plan.functions.text_lengths import (
    char_type,
    concat_type,
    concat_ws_type,
    from_base64_type,
    repeat_type,
    replace_type,
    to_base64_type,
)
from millrace_core.plan.functions.text_sizes import grown, repeat, replace
from millrace_core.plan.spark.pieces import as_int, as_text, call, chain, text, when
from millrace_core.plan.types.typed import BIGINT, Typed, cast, fail, number, typed, wrap

MOST_CONCAT = 8
SPACE = r"[ \t\n\x0B\f\r]"


def _concat(it: FunctionCall) -> exp.Expr:
    return chain(it.args)


def _concat_ws(it: FunctionCall) -> exp.Expr:
    separator, first, *rest = it.args
    return chain([first, *(part for one in rest for part in (separator.copy(), one))])


def _length(it: FunctionCall) -> exp.Expr:
    """Bytes as TDengine stores the text: an NCHAR has four for each character."""
    if it.types[0].type.name == "NCHAR":
        return exp.Mul(this=exp.Length(this=it.args[0]), expression=number(4))
    return call("OCTET_LENGTH", it.args[0])


def _substring(it: FunctionCall) -> exp.Expr:
    """A place before the start of the text counts as its start; place 0, or a length below 1, gives
    the empty text."""
    this, start, *rest = it.args
    length = rest[0] if rest else None
    none: list[exp.Expr] = []
    if not _above_zero(start):
        none.append(exp.EQ(this=wrap(start.copy()), expression=number(0)))
        least = exp.Neg(this=exp.Length(this=this.copy()))
        before = exp.LT(this=wrap(start.copy()), expression=number(0))
        start = when((before, call("GREATEST", start.copy(), least)), default=start.copy())
    if length is not None and not _above_zero(length):
        none.append(exp.LT(this=wrap(length.copy()), expression=number(1)))
    found = exp.Substring(this=this, start=start, length=length)
    if not none:
        return found
    empty = exp.Substring(this=this.copy(), start=number(1), length=number(0))
    return when(*((condition, empty) for condition in none), default=found)


def _above_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name.isdigit() and int(node.name) > 0


def _trim(it: FunctionCall) -> exp.Expr:
    """``trim(text[, what, side])``; ``what`` is removed as a whole, as often as it occurs there."""
    if len(it.args) == 1:
        return _without(it.args[0], SPACE, "both")
    what = re.escape(constant_text(it.args[1], it.name, "the text to remove"))
    sides = ("leading", "trailing", "both")
    side = constant_choice(it.args[2], it.name, "the side", sides) if len(it.args) > 2 else "both"
    return _without(it.args[0], what, side) if what else it.args[0]


def _without(found: exp.Expr, what: str, side: str) -> exp.Expr:
    if side != "trailing":
        found = call("REGEXP_REPLACE", found, text(f"^(?:{what})+"), text(""))
    if side != "leading":
        # \\z is the end itself, while Java's $ also matches before a last line break
        found = call("REGEXP_REPLACE", found, text(rf"(?:{what})+\z"), text(""))
    return found


def _cased(source: str, target: str) -> Function:
    """Changes letters of ASCII only, as in TDengine, so no text gets longer."""
    return Function(
        1, 1, same, lambda it: call("TRANSLATE", it.args[0], text(source), text(target)), ("text",)
    )  # fmt: skip


def _ascii(it: FunctionCall) -> exp.Expr:
    """The first byte; 0 for the empty text."""
    first = call("CONV", exp.Substring(this=_hex(it.args[0]), start=number(1), length=number(2)),
                 number(16), number(10))  # fmt: skip
    empty = exp.EQ(this=wrap(it.args[0].copy()), expression=text(""))
    return when((empty, number(0)), default=cast(first, BIGINT))


def _hex(node: exp.Expr) -> exp.Expr:
    return call("HEX", node)


def _char(it: FunctionCall) -> exp.Expr:
    """The bytes of the numbers, each without leading zero bytes; NULLs are skipped.

    Bytes that are not valid text must not stop a job: they become U+FFFD.
    """
    parts: list[exp.Expr] = []
    for arg in it.args:
        hexed = _hex(convert(arg, Typed(BIGINT)))
        even = exp.EQ(this=exp.Mod(this=exp.Length(this=hexed), expression=number(2)), expression=number(0))
        whole = when((even, hexed.copy()), default=chain([text("0"), hexed.copy()]))
        parts.append(exp.Coalesce(this=whole, expressions=[text("")]))
    joined_ = chain(parts) if len(parts) > 1 else parts[0]
    return call("MAKE_VALID_UTF8", as_text(call("UNHEX", joined_)))


def _substring_index(it: FunctionCall) -> exp.Expr:
    return call("SUBSTRING_INDEX", it.args[0], it.args[1], as_int(it.args[2]))


def _find_in_set(it: FunctionCall) -> exp.Expr:
    """The place of a text in a list (0: not in it); the list's separator is a comma or a constant text.

    As in TDengine, the empty text is in the first place of any list, and the separator '' means a comma.
    """
    this, all_, *rest = it.args
    separator = (constant_text(rest[0], it.name, "the separator") if rest else "") or ","
    pieces = call("SPLIT", all_, text(re.escape(separator)))
    place = cast(call("ARRAY_POSITION", pieces, this), BIGINT)
    if isinstance(this, exp.Literal) and this.name:
        return place
    empty = exp.EQ(this=wrap(this.copy()), expression=text(""))
    there = exp.Not(this=is_null(all_))
    return when((exp.And(this=empty, expression=there), number(1)), default=place)


def _to_json(it: FunctionCall) -> exp.Expr:
    """A constant JSON object; ``{}`` is NULL."""
    node = it.args[0]
    if typed(node).null:
        return exp.Null()
    try:
        found = json.loads(constant_text(node, it.name, "the JSON"))
    except ValueError as error:
        raise fail(ErrorCode.INVALID_VALUE, f"to_json: {error}", node) from None
    if not isinstance(found, dict) or any(isinstance(v, (dict, list)) for v in found.values()):
        message = "to_json needs an object whose values are numbers, strings, booleans or nulls"
        raise fail(ErrorCode.INVALID_VALUE, message, node)
    return text(json.dumps(found, ensure_ascii=False, separators=(",", ":"))) if found else exp.Null()


def _bytes(node: exp.Expr) -> exp.Expr:
    return exp.Encode(this=node, charset=text("UTF-8"))


def _crc32(it: FunctionCall) -> exp.Expr:
    """The checksum of the value's text in TDengine: a BOOL is 1 or 0, a time has whole seconds."""
    this, type_ = it.args[0], it.types[0]
    if type_.type.name == "VARBINARY":
        return call("CRC32", this)
    if type_.timestamp:
        return call("CRC32", _bytes(format_time(this, it.ticks, it.timezone, "yyyy-mm-dd hh24:mi:ss")))
    return call("CRC32", _bytes(plain_text(counted(this))))


def _to_base64(it: FunctionCall) -> exp.Expr:
    return exp.ToBase64(this=_bytes(it.args[0]))


def _from_base64(it: FunctionCall) -> exp.Expr:
    """NULL for texts that are not base64. Bytes that are not valid text must not stop a job: they
    become U+FFFD."""
    return call("MAKE_VALID_UTF8", as_text(call("TRY_TO_BINARY", it.args[0], text("base64"))))


def _digest(name: str) -> Function:
    """Spark's function of that name over the bytes of the text, as hexadecimal digits."""
    digits = DataType("VARCHAR", 40)
    return Function(1, 1, fixed(digits), lambda it: call(name, _bytes(it.args[0])), ("text",))


def _sha2(it: FunctionCall) -> exp.Expr:
    bits = constant_choice(it.args[1], it.name, "the length in bits", ("0", "224", "256", "384", "512"))
    return call("SHA2", _bytes(it.args[0]), number(int(bits)))


def _left(it: FunctionCall) -> exp.Expr:
    return exp.Substring(this=it.args[0], start=number(1), length=it.args[1])


TEXT: dict[str, Function] = {
    "concat": Function(2, MOST_CONCAT, concat_type, grown(_concat, concat_type), ("text",)),
    "concat_ws": Function(3, MOST_CONCAT + 1, concat_ws_type, grown(_concat_ws, concat_ws_type),
                          ("text",)),
    "lower": _cased(ascii_uppercase, ascii_lowercase), "upper": _cased(ascii_lowercase, ascii_uppercase),
    "length": Function(1, 1, fixed(BIGINT), _length, ("bytes",)),
    "char_length": Function(1, 1, fixed(BIGINT), node_of(exp.Length, "this"), ("text",)),
    "ltrim": Function(1, 1, same, lambda it: _without(it.args[0], SPACE, "leading"), ("text",)),
    "rtrim": Function(1, 1, same, lambda it: _without(it.args[0], SPACE, "trailing"), ("text",)),
    "trim": Function(1, 3, same, _trim, ("text",)),
    "substr": Function(2, 3, same, _substring, ("text", "integer")),
    "substring": Function(2, 3, same, _substring, ("text", "integer")),
    "substring_index": Function(3, 3, same, _substring_index, ("text", "text", "integer")),
    "left": Function(2, 2, same, _left, ("text", "integer")),
    "right": Function(2, 2, same, spark("RIGHT"), ("text", "integer")),
    # Spark does not find an empty text either; each argument stands once, however deeply calls are nested
    "replace": Function(3, 3, replace_type, replace, ("text",)),
    "repeat": Function(2, 2, repeat_type, repeat, ("text", "integer")),
    "position": Function(2, 2, fixed(BIGINT), spark("LOCATE"), ("text",)),
    "find_in_set": Function(2, 3, fixed(BIGINT), _find_in_set, ("text",)),
    "ascii": Function(1, 1, fixed(BIGINT), _ascii, ("text",)),
    "char": Function(1, None, char_type, _char, ("code",)),
    "crc32": Function(1, 1, fixed(DataType("INT UNSIGNED")), _crc32),
    "to_base64": Function(1, 1, to_base64_type, grown(_to_base64, to_base64_type), ("text",)),
    "from_base64": Function(1, 1, from_base64_type, grown(_from_base64, from_base64_type), ("text",)),
    "md5": _digest("MD5"), "sha1": _digest("SHA1"), "sha": _digest("SHA1"),
    "sha2": Function(2, 2, fixed(DataType("VARCHAR", 128)), _sha2, ("text", "integer")),
    "to_json": Function(1, 1, fixed(DataType("JSON")), _to_json, ("text",)),
}  # fmt: skip
