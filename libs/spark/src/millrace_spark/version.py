"""Guards what relies on the insides of one version of Spark."""

from __future__ import annotations

import pyspark

from millrace_core.errors import ErrorCode, MillraceError

KNOWN = "4.2"
"""Whose insides are known: files of checkpoints, plans, jobs."""


def require_spark(what: str, version: str = pyspark.__version__) -> None:
    """Where a module is about to use what Spark promises to nobody; ``what``: its subject, for people.

    :raises MillraceError: UNAVAILABLE for another version than the one whose insides are known.
    """
    if version != KNOWN and not version.startswith(f"{KNOWN}."):
        raise MillraceError(
            ErrorCode.UNAVAILABLE,
            f"{what} relies on the insides of Spark {KNOWN}, and this is {version}: install pyspark {KNOWN}",
        )
