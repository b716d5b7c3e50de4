"""Expressions of SELECT, WHERE and HAVING: what they are, and how they are read.

From weak to strong: OR, AND, NOT, comparisons, + and -, * / %, signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from millrace_core.dialect.iotdb.codes import semantic, syntax
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import TIMES, Pattern
from millrace_core.dialect.iotdb.times import Moment, moment
from millrace_core.errors import Position
from millrace_core.language.words import TokenKind

MOST_DEPTH = 40
MOST_OPERATORS = 1_200
"""The most operators of one expression: code that reads or walks it goes down one level for each."""
Value = int | float | str | bytes | bool | None | Moment


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value
    position: Position


@dataclass(frozen=True, slots=True)
class SeriesRef:
    """A measurement, or the rest of a path below those of FROM; it may have wildcards."""

    path: Pattern

    @property
    def position(self) -> Position:
        assert self.path.position is not None
        return self.path.position


@dataclass(frozen=True, slots=True)
class TimeColumn:
    position: Position


@dataclass(frozen=True, slots=True)
class Call:
    """``name``: in lower case."""

    name: str
    arguments: tuple[Expression, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Unary:
    operator: Literal["-", "not"]
    operand: Expression
    position: Position


@dataclass(frozen=True, slots=True)
class Binary:
    """``operator``: + - * / % = != < <= > >= and or."""

    operator: str
    left: Expression
    right: Expression
    position: Position


@dataclass(frozen=True, slots=True)
class Between:
    operand: Expression
    low: Expression
    high: Expression
    negated: bool
    position: Position


@dataclass(frozen=True, slots=True)
class In:
    operand: Expression
    values: tuple[Constant, ...]
    negated: bool
    position: Position


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression
    negated: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Matches:
    """``regular``: REGEXP rather than LIKE."""

    operand: Expression
    text: str
    regular: bool
    negated: bool
    position: Position


Expression = Constant | SeriesRef | TimeColumn | Call | Unary | Binary | Between | In | IsNull | Matches


def parts(node: Expression) -> tuple[Expression, ...]:
    """The direct parts of the expression."""
    match node:
        case Call(arguments=arguments):
            return arguments
        case Binary(left=left, right=right):
            return left, right
        case Between(operand=operand, low=low, high=high):
            return operand, low, high
        case (
            Unary(operand=operand) | In(operand=operand) | IsNull(operand=operand) | Matches(operand=operand)
        ):
            return (operand,)
        case _:
            return ()


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and all its parts, at every depth."""
    yield node
    for part in parts(node):
        yield from walk(part)


def expression(c: Cursor) -> Expression:
    """:raises IotdbError: if there is none, or if it is nested deeper than MOST_DEPTH."""
    return _Reader(c).disjunction()


def constant(c: Cursor) -> Constant:
    """A literal, ``now()`` included, with its sign."""
    return _Reader(c).constant()


def _bytes(c: Cursor) -> bytes:
    where = c.here()
    digits = c.string("hexadecimal digits in quotes")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise syntax(f"X'…' must contain pairs of hexadecimal digits, not {digits[:64]!r}", where) from None


_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<=": "<=", ">=": ">=", "<": "<", ">": ">"}
_KEYWORDS = {"true": True, "false": False, "null": None}


class _Reader:
    def __init__(self, c: Cursor) -> None:
        self._c = c
        self._depth = 0
        self._operators = 0

    def disjunction(self) -> Expression:
        return self._left(self._conjunction, {"or": "or", "||": "or", "|": "or"})

    def _conjunction(self) -> Expression:
        return self._left(self._negation, {"and": "and", "&&": "and"})

    def _negation(self) -> Expression:
        where = self._c.here()
        if self._c.take("not") or self._c.take("!"):
            return self._deeper(lambda: Unary("not", self._negation(), where))
        return self._comparison()

    def _comparison(self) -> Expression:
        c = self._c
        found = self._sum()
        where = c.here()
        if c.take("is"):
            negated = c.take("not")
            c.expect("null")
            return IsNull(found, negated, where)
        place = c.place
        negated = c.take("not")
        if c.take("between"):
            low = self._sum()
            c.expect("and")
            return Between(found, low, self._sum(), negated, where)
        if c.take("in") or c.take("contains"):
            return In(found, c.listed(self.constant), negated, where)
        if c.at("like") or c.at("regexp"):
            regular = c.one_of("like", "regexp") == "regexp"
            return Matches(found, c.string("a pattern in quotes"), regular, negated, where)
        c.place = place
        token = c.peek()
        if token.kind is TokenKind.OPERATOR and token.value in _COMPARISONS:
            c.next()
            return Binary(_COMPARISONS[token.value], found, self._sum(), where)
        return found

    def _sum(self) -> Expression:
        return self._left(self._product, {"+": "+", "-": "-"})

    def _count(self) -> None:
        self._operators += 1
        if self._operators > MOST_OPERATORS:
            raise syntax(f"the expression has more than {MOST_OPERATORS} operators", self._c.here())

    def _product(self) -> Expression:
        return self._left(self._signed, {"*": "*", "/": "/", "%": "%"})

    def _left(self, item: Callable[[], Expression], operators: dict[str, str]) -> Expression:
        found = item()
        while (token := self._c.peek()).value in operators and token.kind in (
            TokenKind.OPERATOR,
            TokenKind.WORD,
        ):
            self._c.next()
            self._count()
            found = Binary(operators[token.value], found, item(), self._c.position(token.start))
        return found

    def _signed(self) -> Expression:
        c = self._c
        where = c.here()
        if c.take("-"):
            operand = self._deeper(self._signed)
            if isinstance(operand, Constant) and isinstance(operand.value, int | float):
                return Constant(-operand.value, where)
            return Unary("-", operand, where)
        if c.take("+"):
            return self._deeper(self._signed)
        return self._primary()

    def _primary(self) -> Expression:
        c = self._c
        token = c.peek()
        if c.take("("):
            found = self._deeper(self.disjunction)
            c.expect(")")
            return found
        if (value := self._literal()) is not None:
            return value
        if token.kind is TokenKind.WORD and c.at(token.value, "("):
            return self._deeper(self._call)
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED) or c.at("*"):
            if token.kind is TokenKind.WORD and token.value in TIMES and not self._dotted(token.end):
                c.next()
                return TimeColumn(c.position(token.start))
            return SeriesRef(c.suffix())
        quoted = token.kind is TokenKind.DURATION
        raise c.unexpected("an expression" + " (put a series of that name in backquotes)" * quoted)

    def _dotted(self, end: int) -> bool:
        return self._c.text[end : end + 1] == "."

    def _call(self) -> Expression:
        c = self._c
        token = c.next()
        c.expect("(")
        arguments: tuple[Expression, ...] = ()
        if not c.at(")"):
            arguments = c.separated(self.disjunction)
        c.expect(")")
        return Call(token.value, arguments, c.position(token.start))

    def _literal(self) -> Constant | None:
        c = self._c
        token = c.peek()
        where = c.position(token.start)
        match token.kind:
            case TokenKind.INTEGER | TokenKind.FLOAT as kind:
                if not math.isfinite(float(c.next().value)):
                    raise semantic(f"the number {token.text[:32]} is out of range", where)
                return Constant((int if kind is TokenKind.INTEGER else float)(token.value), where)
            case TokenKind.STRING:
                return Constant(c.next().value, where)
            case TokenKind.DATETIME:
                return Constant(moment(c, "a time"), where)
            case TokenKind.WORD if c.at("now", "("):
                return Constant(moment(c, "a time"), where)
            case TokenKind.WORD if token.value == "x" and c.text[token.end : token.end + 1] in ("'", '"'):
                c.next()
                return Constant(_bytes(c), where)
            case TokenKind.WORD if token.value in _KEYWORDS and not self._dotted(token.end):
                return Constant(_KEYWORDS[c.next().value], where)
        return None

    def constant(self) -> Constant:
        c = self._c
        where = c.here()
        sign = -1 if c.take("-") else 1
        if sign == 1:
            c.take("+")
        found = self._literal()
        if found is None:
            raise c.unexpected("a value")
        if sign < 0:
            if isinstance(found.value, bool) or not isinstance(found.value, int | float):
                raise syntax("a sign is allowed only before a number", where)
            return Constant(-found.value, where)
        return found

    def _deeper(self, read: Callable[[], Expression]) -> Expression:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise syntax(f"the expression is nested more than {MOST_DEPTH} levels deep", self._c.here())
        found = read()
        self._depth -= 1
        return found
