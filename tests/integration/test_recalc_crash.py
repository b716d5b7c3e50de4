"""kill -9 in the middle of recalculations and history fills: no window is missing, none comes twice.

``MILLRACE_CRASH_RUNS`` says how many rounds there are (3: one for each choice of services that are killed);
``python -m bench.recalc_crash --runs 20`` does the same without pytest.
"""

from __future__ import annotations

import os

import pytest
from bench.recalc_crash import Round

from millrace.sql_client import Rest
from millrace.stack import Stack

RUNS = int(os.environ.get("MILLRACE_CRASH_RUNS", "3"))


@pytest.mark.stack
@pytest.mark.parametrize("seed", range(1, RUNS + 1))
def test_the_output_is_that_of_an_undisturbed_run(stack: Stack, seed: int) -> None:
    with Rest(stack.settings.url("api-gateway"), timeout=300) as rest:
        done = Round(stack, rest, seed).run()
    assert [one for one in stack.status() if not one.ready] == [], done
