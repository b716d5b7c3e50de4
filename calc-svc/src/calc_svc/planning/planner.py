"""Plans of users' statements, as calc-svc asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calc_svc.planning.messages import Asked, AskedQuery, AskedStream, Columns, PlannedQuery, Refused, Wanted
from calc_svc.queries.process import QueryProcess, Talk
from calc_svc.queries.running import Query
from millrace_core.catalog import Definitions
from millrace_core.errors import MillraceError
from millrace_core.model.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans in the ``process`` (None: here, as tests have it). To parse a long statement, to plan it and to
    write it as Spark's SQL takes an interpreter for seconds: calc-svc's own is what streams wait for
    (decision 0079)."""

    definitions: Definitions
    process: QueryProcess | None = None

    def query(self, asked: Query, database: str | None, timezone: str, now: int) -> PlannedQuery:
        """The plan of a user's SELECT.

        :raises MillraceError: what it is refused for, or why it is over.
        """
        question = AskedQuery(asked.sql, database, timezone, now, asked.user)
        if self.process is None:
            return question.answer(self.definitions)
        answer: PlannedQuery = self._ask(self.process, asked, question)
        return answer

    def columns(self, asked: Query, spec: StreamSpec) -> Columns:
        """The columns of the result of a stream that is to be made; ``asked``: for whom, and how long it may
        take.

        :raises MillraceError: as :meth:`query`.
        """
        question = AskedStream(spec)
        if self.process is None:
            return question.answer(self.definitions)
        answer: Columns = self._ask(self.process, asked, question)
        return answer

    def _ask(self, process: QueryProcess, query: Query, question: Asked) -> Any:
        def exchange(talk: Talk) -> object:
            talk.send(question)
            while isinstance(answer := talk.receive(), Wanted):
                talk.send(self.definitions.part(answer.names, families=answer.families))
            return answer

        answer = process.talk(query, exchange)
        if isinstance(answer, Refused):
            raise MillraceError.from_wire(answer.error)
        return answer
