"""What people see of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace_conformance.case import Case, Step


@dataclass(frozen=True)
class Failure:
    """Where a case failed: the step's number, counted from 1, what was expected and what came."""

    number: int
    step: Step | None
    expected: str
    came: str


@dataclass(frozen=True)
class Outcome:
    """How a case ended. ``left``: what could not be dropped afterwards. ``dispute``: why it does not
    count."""

    case: Case
    db: str
    seconds: float
    failure: Failure | None = None
    left: tuple[str, ...] = ()
    dispute: str | None = None

    @property
    def word(self) -> str:
        """PASS, FAIL or DISPUTED."""
        if self.dispute is not None:
            return "DISPUTED"
        return "PASS" if self.failure is None else "FAIL"


def lines(outcome: Outcome) -> list[str]:
    """The line for a case, and below it what went wrong."""
    case = outcome.case
    shown = [f"{outcome.word} {case.id} {case.title} {outcome.seconds:.1f}s"]
    if outcome.dispute is not None:
        state = "it passes" if outcome.failure is None else "it fails"
        shown.append(f"  {state}; disputed: {outcome.dispute}")
    if outcome.failure:
        shown += _failure(outcome, outcome.failure)
    shown += [f"  not cleaned up: {one}" for one in outcome.left]
    return shown


def _failure(outcome: Outcome, failure: Failure) -> list[str]:
    step = failure.step
    what = type(step).__name__.lower() if step else "case"
    place = f"{outcome.case.path}:{step.line}" if step else str(outcome.case.path)
    sql = getattr(step, "sql", None)
    head = [f"  step {failure.number}, {what}, {place} (database {outcome.db})"]
    return [
        *head,
        *(_block("sql", sql) if sql else []),
        *_block("expected", failure.expected),
        *_block("got", failure.came),
    ]


def _block(title: str, text: str) -> list[str]:
    first, *rest = text.strip().splitlines() or [""]
    return [f"    {title + ':':<10}{first}", *(f"              {line}" for line in rest)]


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The lines at the end of a run; the last one is ``N passed, M failed``."""
    words = [outcome.word for outcome in outcomes]
    disputed = words.count("DISPUTED")
    shown = [f"{disputed} disputed, not counted"] if disputed else []
    return [*shown, f"{words.count('PASS')} passed, {words.count('FAIL')} failed"]
