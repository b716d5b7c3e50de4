"""What Spark's failures mean: whose fault they are, in our own words."""

from __future__ import annotations

import re

from millrace_core.errors import ErrorCode, PlanError

_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?$")
"""An error that the query raises itself, as Spark words it."""
_RESULT_BYTES = re.compile(r"bigger than spark\.driver\.maxResultSize \(([^)]*)\)")
TOO_MUCH: dict[str, str] = {
    "OutOfMemoryError": "it needs more memory than a query may use",
    "UNABLE_TO_ACQUIRE_MEMORY": "it needs more memory than a query may use",
    "Cannot grow BufferHolder": "one of its rows is larger than 2 GB",
    "COLLECTION_SIZE_LIMIT_EXCEEDED": "it makes more elements of one row than an array can hold",
    "StackOverflowError": "it is nested too deeply for Spark",
}
"""Words in failures for which the query is to blame, since it asks for too much; and what to say of them."""


def refusal(text: str, otherwise: ErrorCode) -> PlanError:
    """The error for a failure with this text from Spark; ``otherwise``: the code if it is not a known one."""
    line = first_line(text)
    if found := _RESULT_BYTES.search(text):
        return PlanError(
            ErrorCode.TOO_LARGE,
            f"the result is larger than {found[1]} (MILLRACE_CALC_RESULT_BYTES): select less, or add a LIMIT",
        )
    for word, why in TOO_MUCH.items():
        if word in text:
            return PlanError(ErrorCode.TOO_LARGE, f"the query asks for too much: {why}")
    return PlanError(otherwise, line if otherwise is not ErrorCode.INTERNAL else f"Spark: {line}")


def first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "Spark refused the query"
    raised = _RAISED.search(line)
    return raised[1] if raised else line
