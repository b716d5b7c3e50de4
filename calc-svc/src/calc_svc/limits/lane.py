"""Where a stream's queries run: in calc-svc's own Spark, within their limits; or apart from it, in the
process for users' queries, where one that takes too much can end nothing but itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from calc_svc.limits.note import Note
from calc_svc.limits.watch import Watch, Watched, too_long
from calc_svc.queries.lane import QueryLane
from calc_svc.queries.process import QueryProcess
from calc_svc.queries.running import Query
from calc_svc.spark.jvm import JVM_OUT_OF_MEMORY
from calc_svc.spark.relations import Relation
from calc_svc.spark.session import Lane
from millrace_core.calc.parts import TOO_MUCH
from millrace_core.errors import ErrorCode, PlanError
from millrace_core.model.stream import StreamSpec

WAIT = 120.0
"""Seconds that a query waits for the process for users' queries."""
END = 3.0
"""Seconds that Spark's JVM may take to end when it has cut off a query."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What each query of a stream may take: ``seconds`` of time, and ``rows`` of a result.

    ``ended``: waits the given seconds for the end of Spark's JVM, and gives its exit code (None: it has not
    ended); ``process``: where queries run that are kept apart.
    """

    seconds: float
    rows: int
    note: Note
    watch: Watch
    ended: Callable[[float], int | None]
    process: QueryProcess

    def lane(self, spec: StreamSpec, lane: Lane) -> StreamLane:
        """What runs the stream's queries. ``lane``: of calc-svc's own Spark."""
        return StreamLane(self, spec, lane)


@dataclass(frozen=True, slots=True)
class StreamLane:
    """Runs what a job of a stream needs, one query after the other."""

    limits: Limits
    spec: StreamSpec
    lane: Lane

    def run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None = None
    ) -> pa.Table:
        """As :meth:`calc_svc.spark.session.Lane.run`, within the limits.

        :raises PlanError: also QUERY_TIMEOUT or TOO_LARGE for a query that takes too much.
        """
        limits, uid = self.limits, self.spec.uid
        if limits.note.is_apart(uid):
            return self._apart(sql, relations, timezone)
        if limits.ended(0) is not None:  # a query that comes after Spark's end has not caused it
            raise PlanError(ErrorCode.UNAVAILABLE, "Spark has ended")
        found = None
        with limits.watch.watched(uid, self.lane.pool) as asked:
            try:
                found = self._own(sql, relations, timezone, limit, asked)
            except PlanError:
                if not asked.moves or limits.ended(0) is not None:
                    raise
        if found is None:
            return self._apart(sql, relations, timezone)
        if found.num_rows > limits.rows:
            message = f"the result has more than {limits.rows} rows (MILLRACE_CALC_RESULT_ROWS)"
            raise PlanError(ErrorCode.TOO_LARGE, message)
        return found

    def _own(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None, asked: Watched
    ) -> pa.Table:
        limits, uid = self.limits, self.spec.uid
        cut_off = False

        def lives() -> bool:
            # the connection is cut before the JVM's process has ended: give that a moment
            return limits.ended(END if cut_off else 0) is None

        with limits.note.in_work(uid, lives):
            try:
                return self.lane.run(sql, relations, timezone, limit, asked)
            except PlanError as error:
                cut_off = error.code is ErrorCode.UNAVAILABLE and not asked.told_first
                if cut_off and limits.ended(END) == JVM_OUT_OF_MEMORY and limits.note.is_alone(uid):
                    limits.note.take_apart(uid)  # it was alone: that is proof enough
                raise

    def _apart(self, sql: str, relations: Mapping[str, Relation], timezone: str) -> pa.Table:
        limits, until = self.limits, time.monotonic() + WAIT
        while True:
            query = Query(sql, limits.seconds, user=f"stream {self.spec.full_name}", waits=WAIT)
            try:
                return QueryLane(limits.process, query).run(sql, relations, timezone, limits.rows)
            except PlanError as error:
                if error.code in TOO_MUCH:
                    limits.note.take_apart(self.spec.uid)
                if error.code is ErrorCode.QUERY_TIMEOUT:
                    raise too_long(limits.seconds) from error
                # that process may be starting; giving up now would have the whole job calculated again
                waits = error.code.value.retry and time.monotonic() < until
                if not waits or limits.watch.stops.wait(1.0):
                    raise
