"""What calc-svc and the process that plans tell each other, over one pipe per lane: the statement; what the
process asks to know of the catalog, and the answer; the plan, or why the statement is refused."""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.calc.filling import query_of
from millrace_core.catalog import Definitions
from millrace_core.model.schema import Precision
from millrace_core.model.stream import ResultColumn, StreamSpec
from millrace_core.plan import SourceUse, plan_query, plan_stream

Columns = tuple[ResultColumn, ...]


class PlannedQuery(NamedTuple):
    """The plan of a user's query: as :class:`millrace_core.plan.Plan`, with its Spark SQL."""

    sources: tuple[SourceUse, ...]
    result: Columns
    precision: Precision
    sql: str


class AskedQuery(NamedTuple):
    """A user's SELECT, as :func:`millrace_core.plan.plan_query` takes it."""

    sql: str
    database: str | None
    timezone: str
    now: int
    user: str | None

    def answer(self, definitions: Definitions) -> PlannedQuery:
        """:raises MillraceError: why it is refused."""
        plan = plan_query(self.sql, self.database, definitions, self.timezone, self.now, self.user)
        return PlannedQuery(plan.sources, plan.result, plan.precision, plan.one_sql({}))


class AskedStream(NamedTuple):
    """A stream, to ask for the columns of its result."""

    spec: StreamSpec

    def answer(self, definitions: Definitions) -> Columns:
        """The columns. Checks FILL's query, too.

        :raises MillraceError: why it is refused.
        """
        if self.spec.filled is not None:
            plan_stream(query_of(self.spec), definitions)
        return plan_stream(self.spec, definitions).result


Asked = AskedQuery | AskedStream


class Wanted(NamedTuple):
    """From the process: the part of the catalog that it needs, as :meth:`Definitions.part` takes it. The
    answer is that part."""

    names: tuple[tuple[str, str], ...]
    families: bool


class Refused(NamedTuple):
    """``error``: as :meth:`MillraceError.to_wire` gives it."""

    error: dict[str, object]
