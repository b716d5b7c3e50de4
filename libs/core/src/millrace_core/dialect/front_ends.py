"""The languages of statements: each has a front end, and a session says which one it uses.

A front end is a folder of this package that exports ``parse`` and ``lower``. It produces the statements of
``statements.py`` and the streams of ``model.stream``; whoever runs these does not ask in which language they
were written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from millrace_core.catalog import Catalog
from millrace_core.dialect import legacy, tdengine
from millrace_core.language.cursor import Cursor
from millrace_core.language.statements import CreateLegacyStream, CreateStream, ExplainStream, Statement
from millrace_core.language.stream_words import is_older
from millrace_core.model.stream import ResultColumn, StreamSpec

Dialect = Literal["tdengine"]
"""The languages that a session may use."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """``parse(text)``: the only statement in a text. ``lower(statement, catalog, database, timezone)``:
    the stream that such a statement defines. ``complete(spec, statement, result, catalog)``: the same
    stream with its output columns, once those of the query are known. All raise SqlError with the place
    of what is wrong."""

    parse: Callable[[str], Statement]
    lower: Callable[..., StreamSpec]
    complete: Callable[..., StreamSpec]


def _parse_tdengine(text: str) -> Statement:
    """The words of a CREATE STREAM tell its dialect, so one session may use both."""
    cursor = Cursor(text)
    explained = cursor.take("explain")
    if not cursor.take("create", "stream"):
        return tdengine.parse(text)
    older = is_older(cursor)
    if not older and not explained:
        return tdengine.parse(text)
    stream = legacy.create_stream(cursor) if older else tdengine.create_stream(cursor)
    cursor.finish()
    return ExplainStream(stream) if explained else stream


def _lower_tdengine(
    statement: CreateStream | CreateLegacyStream, catalog: Catalog, database: str | None, timezone: str
) -> StreamSpec:
    if isinstance(statement, CreateLegacyStream):
        return legacy.lower(statement, catalog, database, timezone)
    return tdengine.lower(statement, catalog, database, timezone)


def _complete_tdengine(
    spec: StreamSpec,
    statement: CreateStream | CreateLegacyStream,
    result: tuple[ResultColumn, ...],
    catalog: Catalog,
) -> StreamSpec:
    if isinstance(statement, CreateLegacyStream):
        return legacy.complete(spec, statement, result, catalog)
    return tdengine.complete(spec, statement, result, catalog)


FRONT_ENDS: dict[Dialect, FrontEnd] = {
    "tdengine": FrontEnd(_parse_tdengine, _lower_tdengine, _complete_tdengine)
}
"""The front ends by the names that sessions use for them."""
