"""Scalar functions in plain Python: calls over the columns of ``test_function_oracles.py``, what they give.

A row has the columns, and ``_unit`` (ticks per second), ``_precision``, ``_now`` (nanoseconds).
"""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

Row = dict[str, Any]
Value = Callable[[Row], Any]
Case = tuple[str, Value]

ASCII_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
ASCII_UPPER = {c + 32: c for c in range(ord("A"), ord("Z") + 1)}
SPACES = " \t\n\v\f\r"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS = {"ms": 3, "us": 6, "ns": 9}


def of(function: Callable[..., Any], *columns: str) -> Value:
    """The function of these columns; NULL if one of them is, or where it has no finite value."""

    def value(row: Row) -> Any:
        given = [row[name] for name in columns]
        if None in given:
            return None
        try:
            found = function(*given)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
        return None if isinstance(found, float) and not math.isfinite(found) else found

    return value


def each(pattern: str, function: Callable[..., Any], *columns: str) -> list[Case]:
    """The call with each of the columns in the place of ``@``."""
    return [(pattern.replace("@", column), of(function, column)) for column in columns]


def real(pattern: str, function: Callable[[float], float]) -> list[Case]:
    return each(pattern, lambda v: function(float(v)), "i", "g", "d", "f", "q")


def sign(v: float) -> int:
    return (v > 0) - (v < 0)


def near(v: float) -> float:
    """Halves go away from zero, as in C."""
    return math.copysign(math.floor(abs(v) + 0.5), v) if abs(v) < 2**52 else v


def tens(v: int, zeros: int, nearest: bool) -> int:
    unit = 10**zeros
    return sign(v) * ((abs(v) + (unit // 2 if nearest else 0)) // unit * unit)


def digits(v: float, count: int, whole: Callable[[float], float]) -> float:
    return whole(v * 10.0**count) / 10.0**count if abs(v) < 1e200 else v


def leading_number(text: str, kind: type) -> Any:
    """As C's strtoll and strtod read: what stands at the begin; 0 if there is not a number."""
    trimmed = text.lstrip(SPACES)
    for end in range(len(trimmed), 0, -1):
        try:
            return kind(trimmed[:end]) if trimmed[end - 1] not in SPACES + "_" else kind("x")
        except ValueError:
            continue
    return kind(0)


def text_of(v: Any) -> str:
    """A number as TDengine writes it into a VARCHAR."""
    if isinstance(v, bool):
        return "true" if v else "false"
    return f"{v:.6f}" if isinstance(v, float) else str(v)


def part(text: str, start: int, length: int | None = None) -> str:
    if start == 0 or (length is not None and length < 1):
        return ""
    begin = start - 1 if start > 0 else max(len(text) + start, 0)
    return text[begin:] if length is None else text[begin : begin + length]


def until(text: str, mark: str, count: int) -> str:
    pieces = text.split(mark)
    return mark.join(pieces[:count] if count > 0 else pieces[count:])


def place_in(text: str, listed: str, separator: str = ",") -> int:
    """The empty text is always found at once, as in TDengine."""
    return (
        1
        if not text
        else 1 + (listed.split(separator).index(text) if text in listed.split(separator) else -1)
    )


def stripped(text: str, what: str, left: bool, right: bool) -> str:
    while left and text.startswith(what):
        text = text[len(what) :]
    while right and text.endswith(what):
        text = text[: -len(what)]
    return text


def clock(row: Row) -> datetime:
    return EPOCH + timedelta(seconds=row["at"] // row["_unit"])


def timed(function: Callable[[datetime, int, Row], Any]) -> Value:
    """The function of the column ``at`` as a date, and of the ticks of its second."""
    return lambda row: None if row["at"] is None else function(clock(row), row["at"] % row["_unit"], row)


def fraction(ticks: int, row: Row) -> str:
    return f"{ticks:0{DIGITS[row['_precision']]}d}"


def iso(when: datetime, ticks: int, row: Row) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%S}.{fraction(ticks, row)}+0000"


def in_ticks(when: datetime, row: Row) -> int:
    return (when - EPOCH) // timedelta(seconds=1) * int(row["_unit"])


def truncated(when: datetime, ticks: int, row: Row, **less: int) -> int:
    return in_ticks(when.replace(minute=0, second=0, **less), row)


def toward_zero(a: int, b: int) -> int:
    return sign(a) * (abs(a) // b)


def since(row: Row, unit: int | None) -> int | None:
    if row["at"] is None:
        return None
    apart = row["ts"] - row["at"]
    return apart if unit is None else toward_zero(apart, unit * row["_unit"])


def hashed(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode()).hexdigest()


def crc(text: str) -> int:
    return zlib.crc32(text.encode())


def first_known(*columns: str) -> Value:
    return lambda row: next((row[c] for c in columns if row[c] is not None), None)


def constant(value: Any) -> Value:
    return lambda row: value


def shared(name: str, least: bool) -> list[Case]:
    pick = min if least else max
    return [
        (f"{name}(i, d)", of(lambda a, b: pick(float(a), b), "i", "d")),
        (f"{name}(g, i, 5)", of(lambda a, b: pick(a, b, 5), "g", "i")),
        (f"{name}(b, i)", of(lambda a, b: pick(int(a), b), "b", "i")),
        (f"{name}(s, n)", of(pick, "s", "n")),
        (f"{name}(s, i)", of(lambda a, b: pick(a, text_of(b)), "s", "i")),
        (f"{name}(s, f)", of(lambda a, b: pick(a, text_of(b)), "s", "f")),
        (f"{name}(at, ts)", of(pick, "at", "ts")),
    ]


def rounding(name: str, nearest: bool) -> list[Case]:
    whole: Callable[[float], float] = (
        near if nearest else lambda v: float(math.trunc(v)) if abs(v) < 2**52 else v
    )
    return [
        *each(f"{name}(@, -2)", lambda v: tens(v, 2, nearest), "i", "g"),
        *each(f"{name}(@, 3)", lambda v: v, "i", "g", "q"),
        *each(f"{name}(@, 1)", lambda v: digits(v, 1, whole), "d", "f"),
        (f"{name}(d, -1)", of(lambda v: whole(v / 10) * 10, "d")),
        (
            f"{name}(d, k)",
            of(lambda v, k: whole(v / 10.0**-k) * 10.0**-k if k < 0 else digits(v, k, whole), "d", "k"),
        ),
        (f"{name}(i, k)", of(lambda v, k: v if k >= 0 else tens(v, -k, nearest), "i", "k")),
    ]


MATH: dict[str, list[Case]] = {
    "abs": each("abs(@)", abs, "i", "g", "d", "f", "q", "b"),
    "ceil": [*each("ceil(@)", lambda v: v, "i", "g", "q", "b"), *each("ceil(@)", math.ceil, "d", "f")],
    "floor": [*each("floor(@)", lambda v: v, "i", "g", "q", "b"), *each("floor(@)", math.floor, "d", "f")],
    "round": [
        *each("round(@)", lambda v: v, "i", "g", "q"),
        *each("round(@)", near, "d", "f"),
        *rounding("round", True),
    ],
    "trunc": rounding("trunc", False), "truncate": rounding("truncate", False),
    "sign": [*each("sign(@)", sign, "i", "g", "d", "f", "q"), ("sign(b)", of(bool, "b"))],
    "sqrt": [*real("sqrt(@)", math.sqrt), ("sqrt(-1)", constant(None)), ("sqrt(i / 0)", constant(None))],
    "pow": [*real("pow(@, 2)", lambda v: math.pow(v, 2)),
            ("pow(d, k)", of(lambda d, k: math.pow(d, k), "d", "k"))],
    "power": [*real("power(@, 0.5)", lambda v: math.pow(v, 0.5)), ("power(2, k)", of(lambda k: 2.0**k, "k"))],
    "exp": real("exp(@)", math.exp), "ln": real("ln(@)", math.log),
    "log": [
        *real("log(@)", math.log),
        *real("log(@, 2)", lambda v: math.log(v) / math.log(2)),
        ("log(8, k)", of(lambda k: math.log(8) / math.log(k), "k")),
    ],
    "mod": [*real("mod(@, 7)", lambda v: math.fmod(v, 7)),
            ("mod(d, k)", of(lambda d, k: math.fmod(d, k), "d", "k"))],
    "pi": [("pi()", constant(math.pi))], "sin": real("sin(@)", math.sin), "cos": real("cos(@)", math.cos),
    "tan": real("tan(@)", math.tan), "asin": real("asin(@)", math.asin), "acos": real("acos(@)", math.acos),
    "atan": real("atan(@)", math.atan), "degrees": real("degrees(@)", lambda v: v / math.pi * 180),
    "radians": real("radians(@)", math.radians), "greatest": shared("greatest", False),
    "least": shared("least", True),
}  # fmt: skip

TEXT: dict[str, list[Case]] = {
    "concat": [("concat(s, '-', n)", of(lambda a, b: f"{a}-{b}", "s", "n"))],
    "concat_ws": [("concat_ws('/', s, n, s)", of(lambda a, b: f"{a}/{b}/{a}", "s", "n"))],
    "lower": each("lower(@)", lambda v: v.translate(ASCII_LOWER), "s", "n"),
    "upper": each("upper(@)", lambda v: v.translate(ASCII_UPPER), "s", "n"),
    "length": [("length(s)", of(lambda v: len(v.encode()), "s")),
               ("length(n)", of(lambda v: 4 * len(v), "n"))],
    "char_length": each("char_length(@)", len, "s", "n"),
    "ltrim": each("ltrim(@)", lambda v: v.lstrip(SPACES), "s", "n"),
    "rtrim": each("rtrim(@)", lambda v: v.rstrip(SPACES), "s", "n"),
    "trim": [
        *each("trim(@)", lambda v: v.strip(SPACES), "s", "n"),
        ("trim(leading 'X' from s)", of(lambda v: stripped(v, "X", True, False), "s")),
        ("trim(trailing 'X' from s)", of(lambda v: stripped(v, "X", False, True), "s")),
        ("trim('.' from s)", of(lambda v: stripped(v, ".", True, True), "s")),
        ("trim(both '温' from n)", of(lambda v: stripped(v, "温", True, True), "n")),
    ],
    "substr": [
        ("substr(s, 2)", of(lambda v: part(v, 2), "s")),
        ("substr(n, -2)", of(lambda v: part(v, -2), "n")),
        ("substr(s, k, 2)", of(lambda v, k: part(v, k, 2), "s", "k")),
    ],
    "substring": [("substring(s, -3, 2)", of(lambda v: part(v, -3, 2), "s")),
                  ("substring(s, 1, k)", of(lambda v, k: part(v, 1, k), "s", "k"))],
    "substring_index": [
        (f"substring_index(s, 'X', {n})", of(lambda v, n=n: until(v, "X", n) if n else "", "s"))
        for n in (-2, -1, 0, 1, 2)
    ],
    "left": [("left(s, 2)", of(lambda v: v[:2], "s")),
             ("left(s, k)", of(lambda v, k: v[: max(k, 0)], "s", "k"))],
    "right": [(f"right(s, {n})", of(lambda v, n=n: v[-n:] if n else "", "s")) for n in (0, 2, 99)],
    "replace": [("replace(s, 'X', 'yy')", of(lambda v: v.replace("X", "yy"), "s")),
                ("replace(s, n, '-')", of(lambda v, n: v.replace(n, "-") if n else v, "s", "n"))],
    "repeat": [("repeat(s, 2)", of(lambda v: v * 2, "s")),
               ("repeat(s, k)", of(lambda v, k: v * k, "s", "k"))],
    "position": [("position('X' in s)", of(lambda v: v.find("X") + 1, "s")),
                 ("position(n in s)", of(lambda n, v: v.find(n) + 1, "n", "s"))],
    "find_in_set": [
        ("find_in_set(s, 'b,a,12,X')", of(lambda v: place_in(v, "b,a,12,X"), "s")),
        ("find_in_set('b', s)", of(lambda v: place_in("b", v), "s")),
        ("find_in_set('b', s, '')", of(lambda v: place_in("b", v), "s")),
        ("find_in_set(n, s, 'X')", of(lambda n, v: place_in(n, v, "X"), "n", "s")),
    ],
    "ascii": each("ascii(@)", lambda v: v.encode()[0] if v else 0, "s", "n"),
    "char": [
        (
            "char(length(s) + 64, 'x', 67.9)",
            lambda row: ("" if row["s"] is None else chr(len(row["s"].encode()) + 64)) + "\0C",
        ),
        ("char(k + 70)", lambda row: "" if row["k"] is None else chr(row["k"] + 70)),
    ],
    "crc32": [
        *each("crc32(@)", lambda v: crc(text_of(v)), "s", "i", "g", "q", "f"),
        ("crc32(b)", of(lambda v: crc("1" if v else "0"), "b")),
        ("crc32(at)", timed(lambda when, ticks, row: crc(f"{when:%Y-%m-%d %H:%M:%S}"))),
    ],
    "to_base64": each("to_base64(@)", lambda v: base64.b64encode(v.encode()).decode(), "s", "n"),
    "from_base64": [("from_base64(to_base64(s))", of(str, "s")),
                    ("from_base64(concat('*', s))", constant(None))],
    "md5": each("md5(@)", hashed("md5"), "s", "n"), "sha1": each("sha1(@)", hashed("sha1"), "s", "n"),
    "sha": each("sha(@)", hashed("sha1"), "s", "n"),
    "sha2": [("sha2(s, 256)", of(hashed("sha256"), "s")), ("sha2(n, 0)", of(hashed("sha256"), "n"))],
    "to_json": [("""to_json('{"a": 1, "b": null}')""", constant('{"a":1,"b":null}'))],
}  # fmt: skip

TIME: dict[str, list[Case]] = {
    "now": [("now()", lambda row: row["_now"] * row["_unit"] // 10**9)],
    "today": [("today()", lambda row: row["_now"] // (86_400 * 10**9) * 86_400 * row["_unit"])],
    "timetruncate": [
        ("timetruncate(at, 1s)", timed(lambda when, ticks, row: in_ticks(when, row))),
        ("timetruncate(at, 1h)", timed(truncated)),
        ("timetruncate(at, 1d)", timed(lambda when, ticks, row: truncated(when, ticks, row, hour=0))),
        ("timetruncate(at, 1n)", timed(lambda when, ticks, row: truncated(when, ticks, row, hour=0, day=1))),
        (
            "timetruncate(at, 1w)",
            timed(lambda when, ticks, row: row["at"] // (604_800 * row["_unit"]) * 604_800 * row["_unit"]),
        ),
    ],
    "timediff": [
        ("timediff(ts, at)", lambda row: since(row, None)),
        ("timediff(ts, at, 1s)", lambda row: since(row, 1)),
        ("timediff(ts, at, 1d)", lambda row: since(row, 86_400)),
    ],
    "to_iso8601": [
        ("to_iso8601(at)", timed(iso)),
        (
            "to_iso8601(at, '+08:00')",
            timed(
                lambda when, ticks, row: iso(when + timedelta(hours=8), ticks, row).replace("+0000", "+08:00")
            ),
        ),
    ],
    "to_char": [
        (
            "to_char(at, 'yyyy-mm-dd hh24:mi:ss.ns')",
            timed(lambda when, ticks, row: f"{when:%Y-%m-%d %H:%M:%S}.{fraction(ticks, row):0<9}"),
        )
    ],
    "to_timestamp": [
        ("to_timestamp(to_char(at, 'yyyy/mm/dd hh24:mi:ss.ns'), 'yyyy/mm/dd hh24:mi:ss.ns')", of(int, "at")),
        ("to_timestamp(concat('x', s), 'yyyy')", constant(None)),
    ],
    "to_unixtimestamp": [("to_unixtimestamp(to_iso8601(at))", of(int, "at")),
                         ("to_unixtimestamp(concat('x', s))", constant(None))],
    "dayofweek": [("dayofweek(at)", timed(lambda when, ticks, row: when.isoweekday() % 7 + 1))],
    "date": [("date(at)", timed(lambda when, ticks, row: f"{when:%Y-%m-%d}"))],
    "weekday": [("weekday(at)", timed(lambda when, ticks, row: when.weekday()))],
    "week": [
        ("week(at)", timed(lambda when, ticks, row: int(f"{when:%U}"))),
        ("week(at, 5)", timed(lambda when, ticks, row: int(f"{when:%W}"))),
        ("week(at, 3)", timed(lambda when, ticks, row: when.isocalendar().week)),
    ],
    "weekofyear": [("weekofyear(at)", timed(lambda when, ticks, row: when.isocalendar().week))],
}  # fmt: skip

OTHERS: dict[str, list[Case]] = {
    "coalesce": [
        (
            "coalesce(i, k, 5)",
            lambda row: first_known("i", "k")({**row, "k": 5 if row["k"] is None else row["k"]}),
        ),
        ("coalesce(s, n)", first_known("s", "n")),
        ("coalesce(b, i)", first_known("b", "i")),
        ("coalesce(d, i)", first_known("d", "i")),
        ("coalesce(at, ts)", first_known("at", "ts")),
    ],
    "ifnull": [("ifnull(i, g)", first_known("i", "g"))], "nvl": [("nvl(i, d)", first_known("i", "d"))],
    "nvl2": [("nvl2(s, i, g)", lambda row: row["g"] if row["s"] is None else row["i"]),
             ("nvl2(s, b, i)", lambda row: row["i"] if row["s"] is None else row["b"])],
    "nullif": [
        ("nullif(i, 7)", of(lambda v: None if v == 7 else v, "i")),
        ("nullif(g, i)", lambda row: None if row["g"] == row["i"] else row["g"]),
        ("nullif(s, '')", of(lambda v: v or None, "s")),
    ],
    "if": [
        ("if(i > 0, i, d)", lambda row: row["i"] if row["i"] is not None and row["i"] > 0 else row["d"]),
        ("if(b, s, n)", lambda row: row["s"] if row["b"] else row["n"]),
        ("if(b, b, i)", lambda row: 1 if row["b"] else row["i"]),
    ],
    "isnull": [(f"isnull({c})", lambda row, c=c: row[c] is None) for c in ("i", "s", "at")],
    "isnotnull": [(f"isnotnull({c})", lambda row, c=c: row[c] is not None) for c in ("d", "n", "b")],
    "timezone": [("timezone()", constant("UTC"))], "database": [("database()", constant("d"))],
    "current_user": [("current_user()", constant(None))], "user": [("user()", constant(None))],
    "server_version": [("server_version()", constant("3.3.7.0"))],
    "client_version": [("client_version()", constant("3.3.7.0"))],
    "server_status": [("server_status()", constant(1))],
    "cast": [
        *each("cast(@ AS BIGINT)", int, "i", "g", "f", "b", "at"),
        *each("cast(@ AS DOUBLE)", float, "i", "g", "q", "f", "b"),
        *each("cast(@ AS VARCHAR(40))", text_of, "i", "g", "q", "f", "b", "s", "at"),
        *each("cast(@ AS BOOL)", bool, "i", "d", "q"),
        ("cast(s AS BIGINT)", of(lambda v: leading_number(v, int), "s")),
        ("cast(s AS DOUBLE)", of(lambda v: leading_number(v, float), "s")),
        ("cast(s AS BOOL)", of(lambda v: leading_number(v, int) != 0, "s")),
        ("cast(s AS VARCHAR(3))", of(lambda v: v.encode()[:3].decode(errors="ignore"), "s")),
        *each("cast(@ AS TINYINT UNSIGNED)", lambda v: int(v) % 256, "i", "g", "q", "b"),
        ("cast(k AS BIGINT UNSIGNED)", of(lambda v: v % 2**64, "k")),
        ("cast(n AS NCHAR(2))", of(lambda v: v[:2], "n")),
        ("cast(g AS TIMESTAMP)", of(int, "g")),
    ],
}  # fmt: skip

SCALARS: dict[str, list[Case]] = MATH | TEXT | TIME | OTHERS
