"""The conformance cases of this repository, all on one stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.stack import Stack

CASES = Path(__file__).parents[1] / "conformance" / "cases"


def played(variables: dict[str, str]) -> tuple[int, list[str]]:
    """The exit code, and the lines of the cases; each line is printed as its case ends."""
    command = [sys.executable, "-m", "millrace_conformance", str(CASES)]
    with subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = []
        for line in run.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    return run.returncode, lines


@pytest.mark.stack
def test_all_cases_pass(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(CASES.rglob("*.yaml"))
    with capsys.disabled():
        sys.stdout.write("\n")
        code, lines = played(stack.settings.variables())
    assert code == 0, "".join(line for line in lines if not line.startswith("PASS"))
