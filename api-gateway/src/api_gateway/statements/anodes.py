"""CREATE, UPDATE, DROP and SHOW ANODES: analytics services run by others (TDgpt's REST protocol)."""

from __future__ import annotations

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from millrace_analytics.anode_client import list_algorithms
from millrace_core.catalog import Anode, key_of
from millrace_core.errors import CatalogError, ErrorCode, MillraceError
from millrace_core.language import statements
from millrace_core.timeline.precision import milliseconds

OWN = 0
"""The number of the anode that stands for what this deployment computes itself: it exists without CREATE, and
cannot be dropped."""
_ROWS = {
    False: "SELECT id, url, status, create_time, update_time FROM information_schema.ins_anodes ORDER BY id",
    True: "SELECT id, type, algo FROM information_schema.ins_anodes_full ORDER BY id, type, algo",
}


def create_anode(context: Context, session: Session, statement: statements.CreateAnode) -> Answer:
    """Register a node. It is asked for its algorithms at once.

    :raises MillraceError: ANODE_UNREACHABLE, or NOT_ALLOWED for an address that is already registered.
    """
    address = statement.address
    known = [anode for anode in context.catalog.anodes.values() if anode.url == address]
    if known:
        message = f"the anode {address} is already registered, with the number {known[0].id}"
        raise CatalogError(ErrorCode.NOT_ALLOWED, message, statement.position)
    try:
        found = tuple(list_algorithms(address))
    except MillraceError as error:
        raise CatalogError(error.code, error.message, statement.position) from error
    now = milliseconds(session.now)
    with context.writer.ddl:
        number = 1 + max((anode.id for anode in context.catalog.anodes.values()), default=OWN)
        context.writer.write([Anode(number, address, found, now, now)])
    return affected(0)


def update_anode(context: Context, session: Session, statement: statements.UpdateAnode) -> Answer:
    """Ask one node, or all, for its algorithms again.

    :raises MillraceError: ANODE_UNREACHABLE; nodes that were asked before that one are updated.
    """
    anodes = list(context.catalog.anodes.values())
    if statement.number is not None:
        anodes = [_find(context, statement.number)]
    for anode in anodes:
        found = tuple(list_algorithms(anode.url))
        with context.writer.ddl:
            if context.catalog.anodes.get(str(anode.id)) == anode:
                now = milliseconds(session.now)
                context.writer.write([Anode(anode.id, anode.url, found, anode.created, now)])
    return affected(0)


def drop_anode(context: Context, _session: Session, statement: statements.DropAnode) -> Answer:
    with context.writer.ddl:
        context.writer.write(remove=[key_of(_find(context, statement.number))])
    return affected(0)


def show_anodes(context: Context, session: Session, statement: statements.ShowAnodes) -> Answer:
    """calc-svc does the computing, so it says which algorithms there are."""
    return context.calc.query(_ROWS[statement.full], session, context.writer.position, context.written.ends())


def _find(context: Context, number: int) -> Anode:
    """:raises CatalogError: NOT_ALLOWED for one that is not registered, or this deployment's own."""
    found = context.catalog.anodes.get(str(number))
    if found is None:
        what = "is this deployment's own and cannot be changed" if number == OWN else "is not registered"
        raise CatalogError(ErrorCode.NOT_ALLOWED, f"the anode {number} {what}")
    return found
