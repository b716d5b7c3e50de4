"""VERIFY CQ: compares what the runs of a continuous query give now with what is stored in its targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from api_gateway.context import Context
from api_gateway.iotdb.cq import find
from api_gateway.iotdb.reply import Listing
from api_gateway.iotdb.select import ask, readable, select
from api_gateway.session import Session
from millrace_core.dialect.iotdb import parse, times
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import semantic
from millrace_core.dialect.iotdb.paths import write_path
from millrace_core.dialect.iotdb.select.into import Goal, goals, written
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline.continuous import instants, span
from millrace_core.timeline.precision import NS_PER_MS

NAMES = ("kind", "timeseries", "ts", "expected", "found")
TYPES = ("TEXT", "TEXT", "TIMESTAMP", "TEXT", "TEXT")
LIMIT, MOST = 1_000, 10_000
MOST_RUNS, MOST_TARGETS = 1_000, 1_000
"""More runs than these are refused: each one is a query."""
TOLERANCE = 1e-9
Values = dict[tuple[str, int], object]
"""(series, time) -> value."""


def verify_cq(context: Context, session: Session, statement: s.VerifyCq) -> Listing:
    """Rows of (kind, timeseries, ts, expected, found): ``missing``, ``extra``, ``different``. Only runs that
    are done count; if several cover the same time, the last one counts.

    :raises IotdbError: SEMANTIC_ERROR for a range with too many runs or targets.
    """
    query = find(context, session, statement)
    meant = times.TimeContext(session.now, session.timezone)
    first, last = times.resolve(statement.first, meant), times.resolve(statement.last, meant)
    limit = LIMIT if statement.limit is None else statement.limit
    if first > last or not 1 <= limit <= MOST:
        raise semantic(
            f"VERIFY: FROM must not be after TO, and LIMIT must be from 1 to {MOST}", statement.position
        )
    done = context.continuous.told(query.uid)[0].done
    # the run of an instant e covers [e - start, e - end)
    until = min(last + query.start, done if done is not None else first) + 1
    runs = instants(query, first + query.end + 1, until) if done is not None else range(0)
    if len(runs) > MOST_RUNS:
        raise semantic(
            f"VERIFY: the range covers {len(runs)} runs; at most {MOST_RUNS} are allowed", statement.position
        )
    expected, targets = _expected(context, query, runs)
    if len({goal.device for goal in targets}) > MOST_TARGETS:
        raise semantic(f"VERIFY: the query writes to more than {MOST_TARGETS} devices", statement.position)
    inside = {key: value for key, value in expected.items() if first <= key[1] <= last}
    covered = [span(query, run) for run in runs]
    found = {
        key: value
        for key, value in _stored(context, session, targets, first, last).items()
        if any(begin <= key[1] < end for begin, end in covered)
    }
    rows = list(_differences(inside, found))[:limit]
    return Listing(NAMES, TYPES, rows)


def _expected(context: Context, query: ContinuousQuery, runs: Sequence[int]) -> tuple[Values, list[Goal]]:
    statement = parse(query.text)
    assert isinstance(statement, s.CreateCq)
    expected: Values = {}
    targets: dict[str, Goal] = {}
    for run in runs:
        session = Session(query.user, None, query.timezone, run * NS_PER_MS)
        schema = readable(context, session, statement.select)
        meant = times.TimeContext(session.now, session.timezone)
        lowered = lower(statement.select, schema, meant, span=span(query, run))
        meant_for = goals(lowered, schema)
        targets.update((goal.path, goal) for goal in meant_for)
        for rows in written(ask(context, session, lowered), meant_for):
            for name, values in rows.columns.items():
                path = write_path((*rows.device, name))
                for at, value in zip(rows.times, values, strict=True):
                    if value is not None:  # a NULL leaves what was written before
                        expected[path, at] = value
    return expected, list(targets.values())


def _stored(context: Context, session: Session, targets: Sequence[Goal], first: int, last: int) -> Values:
    found: Values = {}
    of_device: dict[tuple[str, ...], list[str]] = {}
    for goal in targets:
        of_device.setdefault(goal.device, []).append(goal.measurement)
    for device, measurements in of_device.items():
        # without quotes, a name might be a keyword or a number of SQL
        names = ", ".join(f"`{name.replace('`', '``')}`" for name in measurements)
        # names are quoted, and the bounds are numbers
        text = f"SELECT {names} FROM {write_path(device)} WHERE time >= {first} AND time <= {last}"  # noqa: S608
        statement = parse(text)
        assert isinstance(statement, s.Select)
        result = select(context, session, statement)
        for path, values in zip(result.names, result.values, strict=True):
            for at, value in zip(result.times or (), values, strict=True):
                if value is not None:
                    found[path, at] = value
    return found


def _differences(expected: Values, found: Values) -> Iterator[tuple[object, ...]]:
    for path, at in sorted(expected.keys() | found.keys(), key=lambda key: (key[1], key[0])):
        wanted, there = expected.get((path, at)), found.get((path, at))
        if there is None:
            yield "missing", path, at, _shown(wanted), None
        elif wanted is None:
            yield "extra", path, at, None, _shown(there)
        elif not _same(wanted, there):
            yield "different", path, at, _shown(wanted), _shown(there)


def _same(a: object, b: object) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    return a == b


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
