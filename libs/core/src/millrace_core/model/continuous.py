"""A continuous query of IoTDB as the catalog keeps it."""

from __future__ import annotations

import msgspec


class ContinuousQuery(msgspec.Struct, frozen=True):
    """A query that runs again and again, and writes what it gives (seed 004, SEMANTICS-FRONTENDS S6).

    It runs at instants ``every`` apart, of which ``boundary`` is one; the run of an instant covers the times
    [instant - ``start``, instant - ``end``). ``discard``: where runs take too long, instants are left out;
    else all are run, late ones one after the other. All in milliseconds, ``created`` too.

    ``text``: the statement as it was sent; ``user``, ``timezone``: whose it is, and of its session. ``uid``:
    what is made anew under the name has another one.
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
