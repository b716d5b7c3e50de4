"""The languages of statements: one front end for each, and a session says which is its own.

A front end is a folder of this package that exports ``parse`` and ``lower``. It gives the statements of
``statements.py`` and the streams of ``model.stream``: whoever runs them does not ask which language they were
written in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from millrace_core.dialect import tdengine
from millrace_core.dialect.statements import Statement
from millrace_core.model.stream import StreamSpec

Dialect = Literal["tdengine"]
"""What a session may speak."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """``parse(text)``: the one statement in a text. ``lower(statement, catalog, database, timezone)``: the
    stream that such a statement defines. Both raise SqlError with the place of what is wrong."""

    parse: Callable[[str], Statement]
    lower: Callable[..., StreamSpec]


FRONT_ENDS: dict[Dialect, FrontEnd] = {"tdengine": FrontEnd(tdengine.parse, tdengine.lower)}
"""By the name that a session knows it by."""
