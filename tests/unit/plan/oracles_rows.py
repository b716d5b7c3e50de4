"""Aggregates and series functions in plain Python over the rows of one trigger, ordered by time and table.

An aggregate gives one value (a list: a row for each); a series function gives ``(time, table, value)`` of the
rows that stay.
"""

from __future__ import annotations

import hashlib
import math
import operator
import statistics
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from . import test_functions_aggregates as lines
from . import test_series as series

Row = dict[str, Any]
Rows = list[Row]
Case = tuple[str, Callable[[Rows], Any]]


def values(rows: Rows, column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def over(pattern: str, function: Callable[[list[Any]], Any], *columns: str, least: int = 1) -> list[Case]:
    """The call with each column in the place of ``@``; NULL of less than ``least`` values."""

    def case(column: str) -> Case:
        def found(rows: Rows) -> Any:
            given = values(rows, column)
            return function(given) if len(given) >= least else None

        return pattern.replace("@", column), found

    return [case(column) for column in columns]


def spread_of(estimate: Callable[[list[Fraction]], Any], root: bool) -> Callable[[list[Any]], float]:
    """Exactly, and only then as a DOUBLE."""

    def found(given: list[Any]) -> float:
        exact = estimate([Fraction(float(v)) for v in given])
        return math.sqrt(exact) if root else float(exact)

    return found


def statistic(name: str, root: bool, sample: bool = False) -> list[Case]:
    estimate = statistics.variance if sample else statistics.pvariance
    return over(f"{name}(@)", spread_of(estimate, root), "i", "g", "d", "f", least=2 if sample else 1)


def points(function: Callable[[list[tuple[int, float]]], Any], column: str) -> Callable[[Rows], Any]:
    return lambda rows: function([(row["ts"], float(row[column])) for row in rows if row[column] is not None])


def irate(column: str) -> Callable[[Rows], Any]:
    def found(rows: Rows) -> Any:
        rate = points(lines.irate, column)(rows)  # per millisecond, times a thousand
        return None if rate is None else rate / 1000 * rows[0]["_unit"]

    return found


def elapsed(seconds: int | None) -> Callable[[Rows], Any]:
    def found(rows: Rows) -> float:
        return (rows[-1]["ts"] - rows[0]["ts"]) / (seconds * rows[0]["_unit"] if seconds else 1)

    return found


def bins(column: str, borders: list[float]) -> Callable[[Rows], list[str]]:
    def found(rows: Rows) -> list[str]:
        pairs = pairwise(borders)
        counts = [(a, b, sum(a < v <= b for v in values(rows, column))) for a, b in pairs]
        return [f'{{"lower_bin":{a:g}, "upper_bin":{b:g}, "count":{n}}}' for a, b, n in counts]

    return found


def joined(rows: Rows) -> str | None:
    texts = [f"{row['s']}{row['n']}" for row in rows if row["s"] is not None and row["n"] is not None]
    return "/".join(texts) if texts else None


def beside(pick: Callable[[Rows], Row], column: str, other: str) -> Callable[[Rows], Any]:
    def found(rows: Rows) -> Any:
        there = [row for row in rows if row[column] is not None]
        return pick(there)[other] if there else None

    return found


def largest(rows: Rows) -> Row:
    return max(rows, key=lambda row: (row["g"], -row["ts"]))


KINDS = ("i", "g", "d", "f", "q", "s", "b", "at")
AGGREGATES: dict[str, list[Case]] = {
    "count": [("count(*)", len), *over("count(@)", len, *KINDS, least=0)],
    "hyperloglog": over("hyperloglog(@)", lambda v: len(set(v)), *KINDS, least=0),
    "sum": over("sum(@)", sum, "i", "g", "d", "f", "q", "b"),
    "avg": over("avg(@)", lambda v: sum(map(float, v)) / len(v), "i", "g", "d", "f", "q"),
    "stddev": statistic("stddev", True),
    "std": statistic("std", True),
    "stddev_pop": statistic("stddev_pop", True),
    "var_pop": statistic("var_pop", False),
    "variance": statistic("variance", False),
    "stddev_samp": statistic("stddev_samp", True, True),
    "var_samp": statistic("var_samp", False, True),
    "spread": [
        *over("spread(@)", lambda v: float(max(v)) - float(min(v)), "i", "g", "d", "f", "q"),
        *over("spread(@)", lambda v: max(v) - min(v), "at", "ts"),
    ],
    "mode": over("mode(@)", lines.mode, "i", "g", "f", "s", "b", "at"),
    "apercentile": over("apercentile(@, 25)", lambda v: lines.percentile(v, 25), "i", "g", "d", "f"),
    "histogram": [
        ("histogram(i, 'user_input', '[-10, 0, 7.5, 1000]', 0)", bins("i", [-10, 0, 7.5, 1000])),
        ("histogram(g, 'user_input', '[-4e18, 0, 4e18]', 0)", bins("g", [-4e18, 0, 4e18])),
    ],
    "group_concat": [("group_concat(s, n, '/')", joined), *over("group_concat(@)", ",".join, "s")],
    "min": over("min(@)", min, *KINDS),
    "max": over("max(@)", max, *KINDS),
    "first": over("first(@)", lambda v: v[0], *KINDS),
    "last": over("last(@)", lambda v: v[-1], *KINDS),
    "last_row": [(f"last_row({c})", lambda rows, c=c: rows[-1][c]) for c in KINDS],
    "cols": [
        ("cols(max(g), s)", beside(largest, "g", "s")),
        ("cols(last(s), i)", beside(lambda r: r[-1], "s", "i")),
        ("cols(first(i), at)", beside(lambda r: r[0], "i", "at")),
    ],
    "elapsed": [
        ("elapsed(ts)", elapsed(None)),
        ("elapsed(ts, 1s)", elapsed(1)),
        ("elapsed(ts, 1m)", elapsed(60)),
    ],
    "twa": [(f"twa({c})", points(lines.twa, c)) for c in ("i", "g", "f")],
    "irate": [(f"irate({c})", irate(c)) for c in ("i", "g", "f")],
    "leastsquares": over("leastsquares(@, 2, 0.5)", lambda v: lines.leastsquares(v, 2, 0.5), "f"),
}
ONE_TABLE = frozenset({"twa", "irate", "leastsquares"})
"""Functions whose oracles want times without duplicates."""
PERCENTILE: list[Case] = over("percentile(@, 75)", lambda v: lines.percentile(v, 75), "i", "g", "d", "f")
"""Not in streams, so not in ``AGGREGATES``."""


def shaped(call: str, column: str, oracle: Callable[[Any], Any]) -> tuple[str, Callable[[Rows], Any]]:
    return call, lambda rows: oracle([(row["ts"], row["tbname"], row[column]) for row in rows])


def timed(call: str, column: str, oracle: Callable[[int], Callable[[Any], Any]]) -> Case:
    """Likewise, of an oracle that wants the ticks of a second."""
    return call, lambda rows: shaped(call, column, oracle(rows[0]["_unit"]))[1](rows) if rows else []


def real(oracle: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The oracle over the values as DOUBLEs."""
    return lambda rows: oracle([(at, name, None if v is None else float(v)) for at, name, v in rows])


def ticket(row: tuple[int, str, Any]) -> str:
    return hashlib.md5(f"{row[0]}/{row[1]}".encode()).hexdigest()


def sample(k: int) -> Callable[[Any], Any]:
    return lambda rows: sorted([row for row in rows if row[2] is not None], key=ticket)[:k]


SERIES: dict[str, list[Case]] = {
    "diff": [
        shaped(f"diff({c}, {o})", c, series.diff(o)) for o in range(4) for c in ("i", "g", "d", "at", "b")
    ],
    "derivative": [
        timed(f"derivative({c}, 1s, {n})", c, lambda unit, n=n: real(series.derivative(unit, n == 1)))
        for c in ("i", "g", "f")
        for n in (0, 1)
    ],
    "csum": [shaped(f"csum({c})", c, series.csum) for c in ("i", "g", "f", "q")],
    "mavg": [shaped(f"mavg({c}, {k})", c, real(series.mavg(k))) for c in ("i", "g", "f") for k in (1, 3)],
    "statecount": [
        shaped("statecount(g, 'GT', 9007199254740992)", "g", series.state(operator.gt, 2**53)),
        shaped("statecount(d, 'le', 0.5)", "d", series.state(operator.le, 0.5)),
    ],
    "stateduration": [
        shaped("stateduration(i, 'GE', 0)", "i", series.state(operator.ge, 0, 1)),
        timed("stateduration(g, 'ne', 0, 1s)", "g", lambda unit: series.state(operator.ne, 0, unit)),
    ],
    "top": [shaped(f"top({c}, 3)", c, series.best(3, -1)) for c in ("i", "g", "d", "f", "q")],
    "bottom": [shaped(f"bottom({c}, 2)", c, series.best(2, 1)) for c in ("i", "g", "d", "f", "q")],
    "sample": [shaped(f"sample({c}, 3)", c, sample(3)) for c in ("g", "s", "at")],
    "unique": [shaped(f"unique({c})", c, series.unique) for c in ("i", "g", "s", "b", "at")],
    "tail": [shaped(f"tail({c}, 3, 1)", c, series.tail(3, 1)) for c in ("g", "s", "at")],
}
