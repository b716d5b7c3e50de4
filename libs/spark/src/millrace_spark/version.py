"""Guards code that relies on the internals of one version of Spark."""

from __future__ import annotations

import pyspark

from millrace_core.errors import ErrorCode, MillraceError

KNOWN = "4.2"
"""The version whose internals are known: files of checkpoints, plans, jobs."""


def require_spark(what: str, version: str = pyspark.__version__) -> None:
    """Called where a module is about to use what Spark does not promise; ``what``: its subject, for people.

    :raises MillraceError: UNAVAILABLE for any version other than the one whose internals are known.
    """
    if version != KNOWN and not version.startswith(f"{KNOWN}."):
        raise MillraceError(
            ErrorCode.UNAVAILABLE,
            f"{what} relies on the internals of Spark {KNOWN}, but version {version} is installed: install "
            f"pyspark {KNOWN}",
        )
