"""Large statements: the work grows with their size alone, and beyond a limit each has its own error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from millrace_core.plan import plan_query

FORMS = {
    "columns of one name": lambda n: f"SELECT {', '.join(['v'] * n)} FROM nt",
    "aggregates": lambda n: f"SELECT {', '.join(f'sum(v + {i})' for i in range(n))} FROM nt",
    "results by GROUP BY": lambda n: (
        f"SELECT {', '.join(f'v + {i}' for i in range(n))} FROM nt"
        f" GROUP BY {', '.join(str(i + 1) for i in range(n))}"
    ),
    "results by ORDER BY": lambda n: (
        f"SELECT {', '.join(f'v + {i} AS c{i}' for i in range(n))} FROM nt"
        f" ORDER BY {', '.join(f'v + {i}' for i in range(n))}"
    ),
    "results of a query in FROM": lambda n: (
        f"SELECT {', '.join(f'c{i}' for i in range(n))}"
        f" FROM (SELECT {', '.join(f'v + {i} AS c{i}' for i in range(n))} FROM nt)"
    ),
}


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python the work takes: its cost, whatever else the machine does."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_planning_is_linear_in_the_columns(kit: Any, form: str) -> None:
    catalog = kit.make_catalog()
    plan_query(FORMS[form](5), "d", catalog, "UTC", 0)  # what is kept from the first time on
    found = [
        lines_run(lambda n=n: plan_query(FORMS[form](n), "d", catalog, "UTC", 0)) for n in (50, 100, 200)
    ]
    assert found[2] - found[1] <= 2.1 * (found[1] - found[0]), found
