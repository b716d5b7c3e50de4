"""CREATE CONTINUOUS QUERY: its grammar, its defaults, and what it refuses (seed 004)."""

from __future__ import annotations

from millrace_core.dialect.iotdb.codes import IotdbError, semantic, unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.expressions import Expression, TimeColumn, walk
from millrace_core.dialect.iotdb.parse_select import select
from millrace_core.dialect.iotdb.statements import CreateCq, DiagnoseCq, DropCq, Select, VerifyCq
from millrace_core.dialect.iotdb.times import Time, duration, time
from millrace_core.errors import Position


def create_cq(c: Cursor, where: Position) -> CreateCq:
    """:raises IotdbError: SQL_PARSE_ERROR; SEMANTIC_ERROR for what the rules of continuous queries refuse."""
    name = c.name("the name of the continuous query")
    every: int | None = None
    boundary: Time = 0
    start: int | None = None
    end = 0
    if c.take("resample"):
        at = c.here()
        if c.take("every"):
            every = duration(c, "EVERY")
        if c.take("boundary"):
            boundary = time(c, "a time for BOUNDARY")
        if c.take("range"):
            start = duration(c, "RANGE")
            if c.take(","):
                end = duration(c, "the end of RANGE")
        if c.here() == at:
            raise c.unexpected("EVERY, BOUNDARY or RANGE")
    discard = False
    if c.take("timeout"):
        c.expect("policy")
        discard = c.one_of("blocked", "discard") == "discard"
    c.expect("begin")
    at = c.expect("select")
    query = select(c, at)
    c.expect("end")
    _check_select(query)
    interval = query.group.interval if query.group is not None else None
    if every is None:
        if interval is None:
            raise semantic(f"{name}: specify RESAMPLE EVERY, or GROUP BY with a time interval", where)
        every = interval
    if start is None:
        start = every
    _check_lengths(name, every, start, end, interval, where)
    return CreateCq(name, every, boundary, start, end, discard, query, c.text.strip().rstrip(";"), where)


def _check_lengths(
    name: str, every: int, start: int, end: int, interval: int | None, where: Position
) -> None:
    if every <= 0:
        raise semantic(f"{name}: EVERY must be greater than 0", where)
    if start <= 0:
        raise semantic(f"{name}: the start of RANGE must be greater than 0", where)
    if start <= end:
        raise semantic(
            f"{name}: RANGE starts {start} ms ago and ends {end} ms ago: it must start before it ends", where
        )
    if interval is not None and interval > start:
        raise semantic(
            f"{name}: a group of {interval} ms is longer than the {start} ms that a run covers", where
        )


def _check_select(query: Select) -> None:
    if not query.into:
        raise semantic("a continuous query needs INTO to say where its results go", query.position)
    if query.group is not None and query.group.start is not None:
        raise semantic(
            "GROUP BY in a continuous query cannot have a time range: each run has its own",
            query.group.position,
        )
    for node in walk(query.where) if query.where is not None else ():
        if isinstance(node, TimeColumn):
            raise _no_time(node)
    if query.last:
        raise unsupported("LAST is not supported in a continuous query", query.position)


def _no_time(node: Expression) -> IotdbError:
    return semantic(
        "a continuous query cannot have a condition on time: each run has its own range", node.position
    )


def diagnose_cq(c: Cursor) -> DiagnoseCq:
    where = c.here()
    return DiagnoseCq(c.name("the name of the continuous query"), where)


def verify_cq(c: Cursor) -> VerifyCq:
    where = c.here()
    name = c.name("the name of the continuous query")
    c.expect("from")
    first = time(c, "the first time")
    c.expect("to")
    last = time(c, "the last time")
    limit = c.integer("the maximum number of differences") if c.take("limit") else None
    return VerifyCq(name, where, first, last, limit)


def drop_cq(c: Cursor) -> DropCq:
    where = c.here()
    return DropCq(c.name("the name of the continuous query"), where)
