"""The table of scalar functions: name -> arguments, type of the result, Spark SQL expression.

It consists of the tables for numbers, texts and times, and of the remaining functions. A call's arguments
come lowered (Spark expressions) and typed, except durations, which stay literals. A function that only Spark
has is an ``exp.Anonymous`` with Spark's name.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.model.types import DataType
from millrace_core.plan.functions.base import (
    Build,
    Function,
    FunctionCall,
    common_type,
    duration_ticks,
    fixed,
    is_null,
    of_one_type,
    same,
    spark,
)
from millrace_core.plan.functions.casts import cast_type, convert
from millrace_core.plan.functions.math import MATH
from millrace_core.plan.functions.text import TEXT
from millrace_core.plan.functions.time import TIME
from millrace_core.plan.spark.pieces import call
from millrace_core.plan.types.typed import BIGINT, BOOL, Typed, common, number

__all__ = ["FUNCTIONS", "LATER", "FunctionCall", "cast_type", "convert", "duration_ticks"]

SERVER_VERSION = "3.3.7.0"
_NAME = DataType("VARCHAR", 64)


def _branches(types: list[Typed], node: exp.Expr, precision: object) -> Typed:
    return common(types[1:], node)


def _if(it: FunctionCall) -> exp.Expr:
    condition, *branches = it.args
    true, false = of_one_type(it, branches)
    return exp.If(this=condition, true=true, false=false)


def _nvl2(it: FunctionCall) -> exp.Expr:
    asked, *branches = it.args
    known, unknown = of_one_type(it, branches)
    return exp.If(this=is_null(asked), true=unknown, false=known)


def _coalesce(it: FunctionCall) -> exp.Expr:
    return call("COALESCE", *of_one_type(it, it.args))


def _null_test(wanted: bool) -> Build:
    def build(it: FunctionCall) -> exp.Expr:
        test = is_null(it.args[0])
        return test if wanted else exp.Not(this=test)

    return build


def _constant(value: Callable[[FunctionCall], str | None]) -> Build:
    def build(it: FunctionCall) -> exp.Expr:
        found = value(it)
        return exp.Null() if found is None else exp.Literal.string(found)

    return build


OTHERS: dict[str, Function] = {
    "coalesce": Function(1, None, common_type, _coalesce),
    "ifnull": Function(2, 2, common_type, _coalesce),
    "nvl": Function(2, 2, common_type, _coalesce),
    "nvl2": Function(3, 3, _branches, _nvl2),
    "nullif": Function(2, 2, same, spark("NULLIF")),
    "if": Function(3, 3, _branches, _if, ("condition", "any")),
    "isnull": Function(1, 1, fixed(BOOL), _null_test(True)),
    "isnotnull": Function(1, 1, fixed(BOOL), _null_test(False)),
    "timezone": Function(0, 0, fixed(_NAME), _constant(lambda it: it.timezone)),
    "current_user": Function(0, 0, fixed(_NAME), _constant(lambda it: it.user)),
    "user": Function(0, 0, fixed(_NAME), _constant(lambda it: it.user)),
    "database": Function(0, 0, fixed(_NAME), _constant(lambda it: it.database)),
    "server_version": Function(0, 0, fixed(_NAME), _constant(lambda it: SERVER_VERSION)),
    "client_version": Function(0, 0, fixed(_NAME), _constant(lambda it: SERVER_VERSION)),
    "server_status": Function(0, 0, fixed(BIGINT), lambda it: number(1)),
}

FUNCTIONS: dict[str, Function] = MATH | TEXT | TIME | OTHERS

_GEOMETRY = ": there is no GEOMETRY type"
LATER = {
    **dict.fromkeys((
        "st_asgeojson", "st_astext", "st_contains", "st_containsproperly", "st_covers", "st_equals",
        "st_geomfromtext", "st_intersects", "st_makepoint", "st_touches",
    ), _GEOMETRY),
}  # fmt: skip
"""Functions of TDengine that Millrace knows only by name, and what to say about each."""
