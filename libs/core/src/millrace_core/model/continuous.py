"""A continuous query of IoTDB as the catalog keeps it."""

from __future__ import annotations

import msgspec


class ContinuousQuery(msgspec.Struct, frozen=True):
    """A query that runs repeatedly and writes its results (seed 004, SEMANTICS-FRONTENDS S6).

    It runs at instants that are ``every`` apart; ``boundary`` is one of them. The run of an instant covers
    the times [instant - ``start``, instant - ``end``). ``discard``: if runs take too long, instants are
    skipped; without it all are run, late ones one after the other. All in milliseconds, ``created`` too.

    ``text``: the statement as it was sent; ``user``, ``timezone``: its owner, and the time zone of its
    session. ``uid``: a query that is made anew under the same name has another one.
    """

    name: str
    uid: int
    text: str
    user: str
    timezone: str
    created: int
    every: int
    boundary: int
    start: int
    end: int
    discard: bool = False
