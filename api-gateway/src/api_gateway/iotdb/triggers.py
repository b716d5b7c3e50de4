"""CREATE TRIGGER, DROP TRIGGER and SHOW TRIGGERS."""

from __future__ import annotations

from api_gateway.context import Context
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.session import Session
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.triggers.life import SHOWN
from millrace_core.privileges import SUPERUSER, check


def create_trigger(context: Context, session: Session, statement: s.CreateTrigger) -> Done:
    """For superusers only: it brings in code."""
    check(context.catalog, session.user, [SUPERUSER])
    context.listener.create(session, statement)
    return Done()


def drop_trigger(context: Context, session: Session, statement: s.DropTrigger) -> Done:
    check(context.catalog, session.user, [SUPERUSER])
    context.listener.drop(session, statement)
    return Done()


def show_triggers(context: Context, session: Session, _: s.ShowTriggers) -> Listing:
    check(context.catalog, session.user, [SUPERUSER])
    return Listing(SHOWN, ("TEXT",) * len(SHOWN), context.listener.shown())
