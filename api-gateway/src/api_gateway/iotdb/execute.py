"""One statement of IoTDB in, one reply out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.iotdb.cq import create_cq, drop_cq, run_once, show_cqs
from api_gateway.iotdb.cq_diagnosis import diagnose_cq
from api_gateway.iotdb.cq_verification import verify_cq
from api_gateway.iotdb.delete import delete, delete_timeseries
from api_gateway.iotdb.into import select_into
from api_gateway.iotdb.reply import Reply
from api_gateway.iotdb.schema import (
    Wanted,
    count,
    create_database,
    create_many,
    create_timeseries,
    delete_database,
    show,
)
from api_gateway.iotdb.select import select
from api_gateway.iotdb.triggers import create_trigger, drop_trigger, show_triggers
from api_gateway.iotdb.write import Tablet, insert, write_tablets
from api_gateway.running import Running
from api_gateway.session import Session
from millrace_core.dialect.iotdb import parse
from millrace_core.dialect.iotdb import statements as s
from millrace_core.errors import MillraceError
from millrace_core.timeline.continuous import Run

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
    s.DiagnoseCq: diagnose_cq,
    s.VerifyCq: verify_cq,
}
READERS = frozenset({s.Show, s.Count, s.Select, s.ShowTriggers, s.ShowCqs, s.DiagnoseCq, s.VerifyCq})


class IotdbExecutor:
    """Runs statements and writes rows; may be called by many threads."""

    def __init__(self, context: Context, running: Running) -> None:
        self._context = context
        self._running = running

    def execute(self, session: Session, sql: str) -> Reply:
        """:raises MillraceError: ``status_of`` turns it into what IoTDB's clients see."""
        with self._running.counted("IotdbStatement", sql):
            return self.run(session, parse(sql))

    def run(self, session: Session, statement: s.Statement) -> Reply:
        """Run a statement that has already been parsed."""
        writes = isinstance(statement, s.Select) and bool(statement.into)
        with self._running.changing(writes or type(statement) not in READERS):
            return HANDLERS[type(statement)](self._context, session, statement)

    def perform(self, session: Session, statement: s.Statement) -> Reply:
        """Run a statement from a protocol that does not send it as text."""
        with self._running.counted(f"Iotdb{type(statement).__name__}", ""):
            return self.run(session, statement)

    def create_series(self, session: Session, wanted: list[Wanted]) -> list[MillraceError | None]:
        """Make the series that do not exist yet; returns for each why it was not made."""
        with self._running.counted("IotdbCreateTimeseries", ""), self._running.changing(True):
            return create_many(self._context, session, wanted)

    def write(self, session: Session, tablets: list[Tablet], firing: Firing | None = None) -> int:
        """Write rows from a protocol that sends them without SQL."""
        with self._running.counted("IotdbTablets", ""), self._running.changing(True):
            return write_tablets(self._context, session, tablets, firing)

    def abandon(self, session: Session) -> None:
        """The client of the statement has gone away."""
        self._running.abandon(session)

    def run_continuous(self, run: Run) -> int:
        """Run a continuous query once; returns how many rows it gave."""
        with self._running.counted("IotdbContinuousQuery", run.query.text), self._running.changing(True):
            return run_once(self._context, run)

    def query(self, session: Session, statement: s.Select, most: int) -> Reply:
        """Run a SELECT of which at most ``most`` rows are wanted; one row more means that there are more."""
        with self._running.counted("IotdbSelect", ""):
            return select(self._context, session, statement, most)
