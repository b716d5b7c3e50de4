"""DIAGNOSE CQ: what a continuous query does, what it has missed, and what keeps it from writing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from api_gateway.context import Context
from api_gateway.iotdb.cq import find
from api_gateway.iotdb.known import known
from api_gateway.iotdb.reply import Listing
from api_gateway.iotdb.select import readable
from api_gateway.session import Session
from millrace_core.dialect.iotdb import parse, times
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.select.into import check_types, goals
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.errors import MillraceError
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline import format_local
from millrace_core.timeline.continuous import Standing, first, instants, span
from millrace_core.timeline.precision import NS_PER_MS, milliseconds
from millrace_core.wire.status import QueryRuns

NAMES = ("about", "item", "amount", "ts", "te", "detail")
TYPES = ("TEXT", "TEXT", "INT64", "TIMESTAMP", "TIMESTAMP", "TEXT")
Row = tuple[object, ...]
WITHIN = 1_000
"""How many milliseconds after its instant a run may begin without being late."""


def diagnose_cq(context: Context, session: Session, statement: s.DiagnoseCq) -> Listing:
    """Rows of (about, item, amount, ts, te, detail): first the verdict, then what it is based on."""
    query = find(context, session, statement)
    told, standing = context.continuous.told(query.uid)
    now = milliseconds(session.now)
    instant = standing.instant if standing is not None else first(query)
    case = _Case(query, told, standing, instant, now, _plan(context, query, instant), session.timezone)
    return Listing(NAMES, TYPES, list(rows_of(case)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the next run would do: how many series it reads and writes to; or why it cannot run."""

    sources: int = 0
    targets: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    query: ContinuousQuery
    told: QueryRuns
    standing: Standing | None
    instant: int
    now: int
    plan: _Plan
    timezone: str

    def time(self, ms: int) -> str:
        return f"'{format_local(ms, 'ms', self.timezone)}'"

    @property
    def late(self) -> range:
        """Instants that are due but not done."""
        return instants(self.query, self.instant, self.now + 1)


def _plan(context: Context, query: ContinuousQuery, instant: int) -> _Plan:
    session = Session(query.user, None, query.timezone, instant * NS_PER_MS)
    try:
        statement = parse(query.text)
        assert isinstance(statement, s.CreateCq)
        schema = readable(context, session, statement.select)
        meant = times.TimeContext(session.now, session.timezone)
        lowered = lower(statement.select, schema, meant, span=span(query, instant))
        found = goals(lowered, schema)
        check_types(found, known(context, session))
    except MillraceError as error:
        return _Plan(why=error.message)
    return _Plan(sum(len(column.bound) for column in lowered.columns), len(found))


def rows_of(case: _Case) -> Iterator[Row]:
    query, told, late = case.query, case.told, case.late
    status = "Failed" if told.message else "Running"
    yield "query", "status", None, None, None, f"{status}: {told.message}" if told.message else status
    yield "query", "verdict", None, None, None, _verdict(case)
    yield "query", "source_series", case.plan.sources, None, None, "series that the next run reads"
    yield "query", "target_series", case.plan.targets, None, None, "series that it writes to"
    for name, amount, words in (
        ("done", told.succeeded, "runs whose rows have been written"),
        ("failed", told.failed, "runs that failed; each is retried for its own range"),
        ("skipped", told.skipped, "instants that TIMEOUT POLICY DISCARD has skipped"),
        ("result_rows", told.rows, "rows written by all runs, including those that were overwritten later"),
    ):
        yield "runs", name, amount, None, None, words
    if late:
        policy = (
            "those in the past when a run ends are skipped" if query.discard else "all of them will be run"
        )
        words = f"due but not run yet, {case.time(late[0])} to {case.time(late[-1])}; {policy}"
        yield "runs", "late", len(late), span(query, late[0])[0], span(query, late[-1])[1], words
    if told.done is not None:
        words = f"the last completed run, of {case.time(told.done)}"
        yield "run", "last", None, *span(query, told.done), words
    yield "run", "next", None, *span(query, case.instant), _next(case)


def _next(case: _Case) -> str:
    of = f"of {case.time(case.instant)}"
    if case.standing is None:
        return f"{of}: this gateway does not run it"
    if case.standing.running:
        return f"{of}: it is running now"
    if case.told.message and case.told.next == case.instant:
        return f"{of}: it failed, and will be retried at {case.time(case.standing.at)}"
    return f"{of}: it will start at {case.time(max(case.standing.at, case.instant))}"


def _verdict(case: _Case) -> str:
    """The first cause that applies, looking from the outside in."""
    told, late = case.told, case.late
    if case.plan.why:
        return f"The next run will fail: {case.plan.why}"
    if told.message:
        return f"Its last run failed: {told.message}"
    if not case.plan.sources:
        return "No series matches FROM and SELECT, so its runs write nothing."
    if late and case.now - late[0] > WITHIN + case.query.every:
        behind = (case.now - late[0]) / 1000
        return (
            f"It is {behind:g} s behind: its runs take {told.took} ms, or wait for the runs of other queries."
        )
    if told.done is None:
        return f"It has not run yet: the first instant is {case.time(case.instant)}."
    if not told.rows:
        return f"It is running, but none of its {told.succeeded} runs had a row to write."
    return f"It is running, and has written {told.rows} rows in {told.succeeded} runs."
