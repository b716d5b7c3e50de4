"""The conformance cases of this repository, all on one stack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.stack import Stack

from ..conftest import thorough

CASES = Path(__file__).parents[1] / "conformance" / "cases"


WHAT_TRIGGERS = ("triggers", "options")
"""The cases of what the trigger stage does alone."""
EACH = 3
"""One of so many of them is run the second way, unless tests are thorough: it takes twice as long a case."""


def played(variables: dict[str, str], *cases: Path) -> tuple[int, list[str]]:
    """The exit code, and the lines of the cases; each line is printed as its case ends. ``cases``: files and
    folders."""
    command = [sys.executable, "-m", "millrace_conformance", *map(str, cases)]
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
        code, lines = played(stack.settings.variables(), CASES)
    assert code == 0, "".join(line for line in lines if not line.startswith("PASS"))


@pytest.fixture
def micro_batches_alone(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The stack, whose rows are evaluated by Spark's micro-batches and by nothing ahead of them."""
    monkeypatch.setenv("MILLRACE_JUDGE_AHEAD", "0")
    stack.restart("trigger-svc")
    yield stack
    monkeypatch.undo()
    stack.restart("trigger-svc")


@pytest.mark.stack
def test_the_micro_batches_alone_give_the_same(
    micro_batches_alone: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write("\n")
        files = sorted(file for name in WHAT_TRIGGERS for file in (CASES / name).rglob("*.yaml"))
        some = files if thorough() else files[::EACH]
        code, lines = played(micro_batches_alone.settings.variables(), *some)
    assert code == 0, "".join(line for line in lines if not line.startswith("PASS"))
