"""The conformance cases of this repository, all on one stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.stack import Stack

CASES = Path(__file__).parents[1] / "conformance" / "cases"


@pytest.mark.stack
def test_all_cases_pass(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(CASES.rglob("*.yaml"))
    command = [sys.executable, "-m", "millrace_conformance", str(CASES)]
    with capsys.disabled():  # one line a case, as each ends
        sys.stdout.write("\n")
        sys.stdout.flush()
        done = subprocess.run(command, env=os.environ | stack.settings.variables(), check=False)
    assert done.returncode == 0
