"""EXPLAIN CREATE STREAM, of either dialect."""

from __future__ import annotations

from api_gateway.answer import Answer, text_column
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.streams import check_output
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.statements import ExplainStream
from millrace_core.dialect.tdengine.explain import understood

ITEM, VALUE = 64, 16_384
"""Longest texts of the columns."""


def explain_stream(context: Context, session: Session, statement: ExplainStream) -> Answer:
    """What a stream was understood to be: rows of (item, value). Nothing is made.

    :raises SqlError: as CREATE STREAM itself would, as far as the catalog tells.
    """
    lower = FRONT_ENDS[session.dialect].lower
    spec = lower(statement.stream, context.catalog, session.database, session.timezone)
    check_output(spec, statement.stream, context.catalog)
    facts = understood(spec)
    return Answer((text_column("item", ITEM), text_column("value", VALUE)), [list(fact) for fact in facts])
