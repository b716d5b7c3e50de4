"""SHOW QUERIES and KILL QUERY: the users' queries that are running."""

from __future__ import annotations

from api_gateway.answer import INT, Answer, AnswerColumn, affected, text_column
from api_gateway.context import Context
from api_gateway.session import Session
from millrace_core.errors import MillraceError
from millrace_core.language.statements import KillQuery
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.privileges import is_superuser
from millrace_core.timeline.precision import milliseconds

BOOL = DataType("BOOL")
COLUMNS = (
    text_column("kill_id", 26), AnswerColumn("query_id", BIGINT), AnswerColumn("conn_id", INT),
    text_column("app", 24), AnswerColumn("pid", INT), text_column("user", 24), text_column("end_point", 22),
    AnswerColumn("create_time", TIMESTAMP), AnswerColumn("exec_usec", BIGINT),
    AnswerColumn("stable_query", BOOL), AnswerColumn("sub_query", BOOL), AnswerColumn("sub_num", INT),
    text_column("sub_status", 1000), text_column("sql", 2048),
)  # fmt: skip
"""TDengine's columns; those that do not apply are NULL."""
USER = 5
LONGEST_SQL = 2048


def rows(context: Context, _session: Session, _db: str) -> list[list[object]]:
    """The queries of all users.

    :raises MillraceError: if calc-svc does not answer.
    """
    found: list[list[object]] = []
    for one in context.calc.running():
        number = one.id.rpartition(":")[2]
        found.append([
            one.id, int(number, 16) if number else None, None, None, None, one.user, None,
            milliseconds(one.began), one.took, None, None, None, None, one.sql[:LONGEST_SQL],
        ])  # fmt: skip
    return found


def kill_query(context: Context, session: Session, statement: KillQuery) -> Answer:
    """End a query: users may end their own, a superuser may end any.

    :raises MillraceError: UNKNOWN_QUERY if it is not running, or is somebody else's.
    """
    whose = None if is_superuser(context.catalog, session.user) else session.user
    try:
        context.calc.kill(statement.id, f"the user {session.user}", whose)
    except MillraceError as error:
        raise MillraceError(error.code, error.message, statement.position) from error
    return affected(0)
