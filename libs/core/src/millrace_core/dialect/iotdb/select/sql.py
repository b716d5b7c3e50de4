"""Expressions over the series of one device, as SQL over the table of devices.

Arithmetic gives DOUBLE, as in IoTDB; comparisons are those of SQL, so what is NULL meets no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import semantic, unsupported
from millrace_core.dialect.iotdb.schema import TIME
from millrace_core.dialect.iotdb.times import Moment, TimeContext, resolve
from millrace_core.language.lexer import quote, quote_name
from millrace_core.model.device import Series

NUMBERS = frozenset({"INT32", "INT64", "FLOAT", "DOUBLE"})
TEXTS = frozenset({"TEXT", "STRING", "DATE", "BLOB"})
"""Types whose values are texts in SQL."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL, and IoTDB's name for its type."""

    text: str
    type: str


Bind = Callable[[e.SeriesRef], Series | None]
"""Gives the series of the device that is meant; None: the device has no such series."""


class Missing(Exception):
    """The device lacks a series that the expression needs."""


def render(node: e.Expression, bind: Bind, session: TimeContext) -> Sql:
    """:raises Missing: if the device lacks one of the series; IotdbError: for what cannot be calculated."""
    return _Renderer(bind, session).render(node)


_OF_ONE_RANK = {
    operator: rank for rank in (frozenset("+-"), frozenset("*/%")) for operator in rank
}  # fmt: skip
"""Arithmetic operator -> the operators of the same rank, which are read with it from left to right."""


def _chain(node: e.Binary, alike: Collection[str]) -> list[tuple[str, e.Expression]]:
    """The parts of ``a + b - c``, each with the operator before it, from left to right. A long chain written
    as nested parentheses would be too deep."""
    found: list[tuple[str, e.Expression]] = []
    left: e.Expression = node
    while isinstance(left, e.Binary) and left.operator in alike:
        found.append((left.operator, left.right))
        left = left.left
    return [("", left), *reversed(found)]


class _Renderer:
    def __init__(self, bind: Bind, session: TimeContext) -> None:
        self._bind = bind
        self._session = session

    def render(self, node: e.Expression) -> Sql:
        match node:
            case e.Constant(value=value):
                return _constant(value, self._session)
            case e.TimeColumn():
                return Sql(quote_name(TIME), "TIMESTAMP")
            case e.SeriesRef():
                series = self._bind(node)
                if series is None:
                    raise Missing
                return Sql(quote_name(series.column), series.type)
            case e.Binary():
                return self._binary(node)
            case e.Unary(operator="-"):
                return Sql(f"(0 - {self._number(node.operand)})", "DOUBLE")
            case e.Unary():
                return Sql(f"(NOT {self._condition(node.operand)})", "BOOLEAN")
            case e.Call():
                raise unsupported(f"the function {node.name} is not supported yet", node.position)
            case _:
                return self._predicate(node)

    def _predicate(self, node: e.Between | e.In | e.IsNull | e.Matches) -> Sql:
        match node:
            case e.Between():
                text = f"{self._plain(node.operand)} {_not(node)}BETWEEN {self._plain(node.low)}"
                return Sql(f"({text} AND {self._plain(node.high)})", "BOOLEAN")
            case e.In():
                values = ", ".join(_constant(one.value, self._session).text for one in node.values)
                return Sql(f"({self._plain(node.operand)} {_not(node)}IN ({values}))", "BOOLEAN")
            case e.IsNull():
                return Sql(f"({self._plain(node.operand)} IS {_not(node)}NULL)", "BOOLEAN")
            case e.Matches():
                return self._matches(node)

    def _plain(self, node: e.Expression) -> str:
        return self.render(node).text

    def _binary(self, node: e.Binary) -> Sql:
        if node.operator in ("and", "or"):
            parts = [self._condition(part) for _, part in _chain(node, {node.operator})]
            return Sql(f"({f' {node.operator.upper()} '.join(parts)})", "BOOLEAN")
        if (alike := _OF_ONE_RANK.get(node.operator)) is not None:
            (_, first), *others = _chain(node, alike)
            text = "".join(f" {operator} {self._number(part)}" for operator, part in others)
            return Sql(f"({self._number(first)}{text})", "DOUBLE")
        left_sql, right_sql = self.render(node.left), self.render(node.right)
        if (left_sql.type in TEXTS) != (right_sql.type in TEXTS) and not _timely(left_sql, right_sql):
            raise semantic(f"{left_sql.type} and {right_sql.type} cannot be compared", node.position)
        if {left_sql.type, right_sql.type} == {"DATE", "TIMESTAMP"}:
            raise semantic("a DATE can be compared only with a date in quotes", node.position)
        return Sql(f"({left_sql.text} {node.operator} {right_sql.text})", "BOOLEAN")

    def _number(self, node: e.Expression) -> str:
        found = self.render(node)
        if found.type not in NUMBERS | {"TIMESTAMP"}:
            raise semantic(f"arithmetic needs numbers, not {found.type}", node.position)
        if isinstance(node, e.Constant):
            return repr(float(found.text))
        return f"CAST({found.text} AS DOUBLE)"

    def _condition(self, node: e.Expression) -> str:
        found = self.render(node)
        if found.type != "BOOLEAN":
            raise semantic(f"expected a condition, not {found.type}", node.position)
        if isinstance(node, e.SeriesRef):
            return f"({found.text} = TRUE)"
        return found.text

    def _matches(self, node: e.Matches) -> Sql:
        found = self.render(node.operand)
        if found.type not in TEXTS:
            raise semantic(f"LIKE and REGEXP need TEXT, not {found.type}", node.position)
        if node.regular:
            word = "NMATCH" if node.negated else "MATCH"
            return Sql(f"({found.text} {word} {quote(node.text)})", "BOOLEAN")
        return Sql(f"({found.text} {_not(node)}LIKE {quote(node.text)})", "BOOLEAN")


def _timely(left: Sql, right: Sql) -> bool:
    return "TIMESTAMP" in (left.type, right.type)


def _not(node: e.Between | e.In | e.IsNull | e.Matches) -> str:
    return "NOT " if node.negated else ""


def _constant(value: e.Value, session: TimeContext) -> Sql:
    if isinstance(value, Moment):
        return Sql(str(resolve(value, session)), "TIMESTAMP")
    if value is None:
        return Sql("NULL", "DOUBLE")
    if isinstance(value, bool):
        return Sql("TRUE" if value else "FALSE", "BOOLEAN")
    if isinstance(value, bytes):
        return Sql(quote(f"0x{value.hex()}"), "BLOB")
    if isinstance(value, str):
        return Sql(quote(value), "TEXT")
    return Sql(repr(value), "INT64" if isinstance(value, int) else "DOUBLE")


def source_text(node: e.Expression, name: Callable[[e.SeriesRef], str]) -> str:
    """The expression as the name of a result; ``name`` gives the names of its series."""
    return _Text(name).of(node)


@dataclass(frozen=True, slots=True)
class _Text:
    name: Callable[[e.SeriesRef], str]

    def of(self, part: e.Expression) -> str:
        match part:
            case e.Constant(value=value):
                return _shown(value)
            case e.TimeColumn():
                return "Time"
            case e.SeriesRef():
                return self.name(part)
            case e.Call():
                return f"{part.name}({', '.join(map(self.of, part.arguments))})"
            case e.Binary():
                return f"{self._inner(part.left)} {part.operator} {self._inner(part.right)}"
            case e.Unary():
                return f"{'-' if part.operator == '-' else 'not '}{self._inner(part.operand)}"
            case _:
                return self._predicate(part)

    def _predicate(self, part: e.Between | e.In | e.IsNull | e.Matches) -> str:
        head = f"{self.of(part.operand)} {_not(part)}"
        match part:
            case e.Between():
                return f"{head}BETWEEN {self.of(part.low)} AND {self.of(part.high)}"
            case e.In():
                return f"{head}IN ({', '.join(_shown(one.value) for one in part.values)})"
            case e.IsNull():
                return f"{self.of(part.operand)} IS {_not(part)}NULL"
            case e.Matches():
                return f"{head}{'REGEXP' if part.regular else 'LIKE'} '{part.text}'"

    def _inner(self, part: e.Expression) -> str:
        return f"({self.of(part)})" if isinstance(part, e.Binary) else self.of(part)


def _shown(value: e.Value) -> str:
    if isinstance(value, Moment):
        return value.text or "now()"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "null"
    return f"'{value}'" if isinstance(value, str) else str(value)
