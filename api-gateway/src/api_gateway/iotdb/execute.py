"""One statement of IoTDB in, one reply out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.iotdb.cq import create_cq, drop_cq, run_once, show_cqs
from api_gateway.iotdb.delete import delete, delete_timeseries
from api_gateway.iotdb.into import select_into
from api_gateway.iotdb.reply import Reply
from api_gateway.iotdb.schema import count, create_database, create_timeseries, delete_database, show
from api_gateway.iotdb.select import select
from api_gateway.iotdb.triggers import create_trigger, drop_trigger, show_triggers
from api_gateway.iotdb.write import Tablet, insert, write_tablets
from api_gateway.session import Session
from api_gateway.tables.firing import Firing
from api_gateway.upkeep.recovery import settle
from millrace_core.dialect.iotdb import parse
from millrace_core.dialect.iotdb import statements as s
from millrace_core.errors import ErrorCode, Fault, MillraceError
from millrace_core.timeline.continuous import Run

T = TypeVar("T")
LOGGED = 1000
"""Characters of a statement that go into the log."""


Handler = Callable[[Context, Session, Any], Reply]
HANDLERS: dict[type, Handler] = {
    s.CreateDatabase: create_database,
    s.DeleteDatabase: delete_database,
    s.CreateTimeseries: create_timeseries,
    s.DeleteTimeseries: delete_timeseries,
    s.Show: show,
    s.Count: count,
    s.Insert: insert,
    s.Delete: delete,
    s.Select: lambda context, session, statement: (
        select_into(context, session, statement) if statement.into else select(context, session, statement)
    ),
    s.CreateTrigger: create_trigger,
    s.DropTrigger: drop_trigger,
    s.ShowTriggers: show_triggers,
    s.CreateCq: create_cq,
    s.DropCq: drop_cq,
    s.ShowCqs: show_cqs,
}
READERS = frozenset({s.Show, s.Count, s.Select, s.ShowTriggers, s.ShowCqs})


class IotdbExecutor:
    """Runs statements and writes rows; may be called by many threads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._unsettled = False

    def execute(self, session: Session, sql: str) -> Reply:
        """:raises MillraceError: ``status_of`` gives what IoTDB's clients see of it."""
        return self._counted("Statement", sql, lambda: self.run(session, parse(sql)))

    def run(self, session: Session, statement: s.Statement) -> Reply:
        """A statement that was read already."""
        writes = isinstance(statement, s.Select) and bool(statement.into)
        changes = writes or type(statement) not in READERS
        handler = HANDLERS[type(statement)]
        return self._changing(changes, lambda: handler(self._context, session, statement))

    def write(self, session: Session, tablets: list[Tablet], firing: Firing | None = None) -> int:
        """Rows of a protocol that brings them without SQL."""
        return self._counted(
            "Tablets",
            "",
            lambda: self._changing(True, lambda: write_tablets(self._context, session, tablets, firing)),
        )

    def run_continuous(self, run: Run) -> int:
        """One run of a continuous query; how many rows it gave."""
        return self._counted(
            "ContinuousQuery",
            run.query.text,
            lambda: self._changing(True, lambda: run_once(self._context, run)),
        )

    def query(self, session: Session, statement: s.Select, most: int) -> Reply:
        """A SELECT of which no more than ``most`` rows are wanted; one more says that there are."""
        return self._counted("Select", "", lambda: select(self._context, session, statement, most))

    def _changing(self, changes: bool, work: Callable[[], T]) -> T:
        if changes and self._unsettled:
            settle(self._context)
            self._unsettled = False
        try:
            return work()
        except MillraceError as error:
            # the broker may or may not have taken what was sent: look before the next change
            self._unsettled |= changes and error.code.value.fault is Fault.EXTERNAL
            raise

    def _counted(self, kind: str, sql: str, work: Callable[[], T]) -> T:
        begin = time.monotonic()
        kind = f"Iotdb{kind}"
        try:
            return work()
        except MillraceError as error:
            metrics.ERRORS.labels(error.code.name).inc()
            raise
        except Exception as error:
            metrics.ERRORS.labels(ErrorCode.INTERNAL.name).inc()
            self._context.logger.exception("a statement failed unexpectedly", sql=sql[:LOGGED])
            raise MillraceError(
                ErrorCode.INTERNAL, f"the statement failed unexpectedly: {type(error).__name__}; see the log"
            ) from error
        finally:
            metrics.REQUESTS.labels(kind).inc()
            metrics.SECONDS.labels(kind).observe(time.monotonic() - begin)
