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
    """Plans in the ``process`` (None: here, as in tests). Parsing a long statement, planning it and writing
    it as Spark SQL keeps an interpreter busy for seconds, and streams need calc-svc's own (decision 0079)."""

    definitions: Definitions
    process: QueryProcess | None = None

    def query(self, asked: Query, database: str | None, timezone: str, now: int) -> PlannedQuery:
        """The plan of a user's SELECT.

        :raises MillraceError: why it is refused, or why it is over.
        """
        question = AskedQuery(asked.sql, database, timezone, now, asked.user)
        if self.process is None:
            return question.answer(self.definitions)
        answer: PlannedQuery = self._ask(self.process, asked, question)
        return answer

    def columns(self, asked: Query, spec: StreamSpec) -> Columns:
        """The result columns of a stream that is to be made; ``asked``: for whom this is done, and how long
        it may take.

        :raises MillraceError: as :meth:`query`.
        """
        question = AskedStream(spec)
        if self.process is None:
            return question.answer(self.definitions)
        answer: Columns = self._ask(self.process, asked, question)
        return answer

    def _ask(self, process: QueryProcess, query: Query, question: Asked) -> Any:
        def exchange(talk: Talk) -> object:
            talk.ask(question)
            while isinstance(answer := talk.receive(), Wanted):
                talk.reply(self.definitions.part(answer.names, families=answer.families))
            return answer

        answer = process.talk(query, exchange)
        if isinstance(answer, Refused):
            raise MillraceError.from_wire(answer.error)
        return answer
