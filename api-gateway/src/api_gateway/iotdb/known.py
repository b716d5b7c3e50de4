"""Which devices exist for a user: a device that the user may not know of does not.

A path without wildcards that names none of these is refused, whether or not it exists for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from api_gateway.context import Context
from api_gateway.session import Session
from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.paths import Pattern
from millrace_core.dialect.iotdb.schema import Knows, Schema
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.privileges import OF_DATABASE, Need, Privilege, is_superuser, knows_database, may


def known(context: Context, session: Session, kind: Privilege = "any") -> Schema:
    """The databases that the user may know of, and the devices that the user has this privilege on."""
    catalog = context.catalog
    if is_superuser(catalog, session.user):
        return Schema(catalog)
    return Schema(catalog, _knows(context, session.user, kind))


def _knows(context: Context, user: str, kind: Privilege) -> Knows:
    catalog = context.catalog
    whole: dict[str, bool] = {}

    def knows(db: str, device: str | None) -> bool:
        if device is None:
            return knows_database(catalog, user, db)
        if db not in whole:
            whole[db] = may(catalog, user, [Need(kind, db, table=OF_DATABASE)])
        return whole[db] or may(catalog, user, [Need(kind, db, table=device)])

    return knows


def refuse_hidden(context: Context, session: Session, kind: Privilege, devices: Iterable[Pattern]) -> None:
    """:raises MillraceError: PERMISSION for a device that is named but on which the user lacks this
    privilege; also for a device that does not exist, unless the user has the privilege on the whole
    database."""
    schema = known(context, session, kind)
    if not schema.restricted:
        return
    for device in devices:
        if device.wild or schema.device(device.names) is not None:
            continue
        db = schema.database_of(device.names)
        if db is None or not may(context.catalog, session.user, [Need(kind, db, table=OF_DATABASE)]):
            raise MillraceError(
                ErrorCode.PERMISSION,
                f"Insufficient privilege: {session.user} does not have the privilege to {kind} {device}",
                device.position,
            )


def selected(statement: s.Select) -> Iterator[Pattern]:
    """The devices that a SELECT names; some with wildcards."""
    if statement.by_device:
        yield from statement.sources
        return
    for item in statement.items:
        for node in e.walk(item.expression):
            if isinstance(node, e.SeriesRef):
                yield from (above(source.joined(node.path)) for source in statement.sources)


def above(series: Pattern) -> Pattern:
    """The device of a series."""
    return Pattern(series.nodes[:-1], series.position)
