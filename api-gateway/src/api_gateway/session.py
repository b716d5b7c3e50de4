"""For whom a statement runs."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field

from api_gateway.access.caller import Caller
from millrace_core.dialect.front_ends import Dialect
from millrace_core.errors import CatalogError, ErrorCode
from millrace_core.language import times
from millrace_core.language.names import Name, QualifiedName
from millrace_core.model.schema import Precision

_GATEWAY = secrets.token_hex(4)
_statements = itertools.count(1)


def _fresh_id() -> str:
    return f"{_GATEWAY}:{next(_statements):x}"


@dataclass(frozen=True, slots=True)
class Session:
    """``database``: the one that unqualified names are in, if one was chosen; ``timezone``: of times written
    without an offset, and of times in the answer; ``now``: nanoseconds since the epoch; ``dialect``: what the
    session speaks; ``id``: of the statement; under it, its queries can be killed."""

    user: str
    database: str | None
    timezone: str
    now: int
    dialect: Dialect = "tdengine"
    id: str = field(default_factory=_fresh_id)

    @property
    def caller(self) -> Caller:
        return Caller(self.user, self.now)

    def db_of(self, name: QualifiedName) -> str:
        """The database that a name is in; :raises CatalogError: NO_DATABASE."""
        db = name.db or self.database
        if db is None:
            raise CatalogError(
                ErrorCode.NO_DATABASE, f"{name}: no database is selected: write db.{name.name}", name.position
            )
        return db

    def values(self, precision: Precision) -> times.TimeContext:
        """What the literals of this session mean in a database of this precision."""
        return times.TimeContext(precision, self.now, self.timezone)


def unknown_database(db: str, name: Name | QualifiedName | None = None) -> CatalogError:
    """The error for a database that does not exist."""
    where = name.position if name else None
    return CatalogError(ErrorCode.UNKNOWN_DATABASE, f"the database {db} does not exist", where)
