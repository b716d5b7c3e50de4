"""A user's query in the process for queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from calc_svc import metrics
from calc_svc.queries.messages import Answered, ask, rows_of
from calc_svc.queries.process import QueryProcess, Talk
from calc_svc.queries.running import Query
from calc_svc.spark.relations import Relation


@dataclass(frozen=True, slots=True)
class QueryLane:
    """Runs what one query of a user needs, one after the other."""

    process: QueryProcess
    query: Query

    def run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None = None
    ) -> pa.Table:
        """As :meth:`calc_svc.spark.session.Lane.run`, in the process for queries.

        :raises PlanError: also as :meth:`QueryProcess.talk`.
        """

        def exchange(talk: Talk) -> Answered:
            talk.ask(ask(sql, relations, timezone, limit))
            answered: Answered = talk.receive()
            return answered

        with metrics.JOB_SECONDS.labels("queries").time():
            return rows_of(self.process.talk(self.query, exchange))
