"""A WHERE of NOTIFY that consists of constants: it applies to every event, calculated or not."""

from __future__ import annotations

from collections.abc import Sequence

from calc_svc.jobs.compute import Calculator
from calc_svc.spark.session import Runs
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.plan.notify import of_constants
from millrace_core.wire.events import TriggerEvent


def has_condition(spec: StreamSpec) -> bool:
    """Whether NOTIFY has WHERE: of columns (``plan.notify``) or of constants."""
    return spec.notify is not None and spec.notify.where is not None


def met(
    calculator: Calculator, spec: StreamSpec, plan: Plan | None, events: Sequence[TriggerEvent], lane: Runs
) -> dict[int, bool] | None:
    """Whether each event (by ``id()``) meets the condition; None if there is none, or if it is of columns.

    :raises MillraceError: why the condition is refused.
    """
    if plan is None or plan.notify or not has_condition(spec) or not events:
        return None
    condition = of_constants(spec)
    outcomes = calculator.calculate(condition, calculator.plans.of(condition), events, lane)
    found: dict[int, bool] = {}
    for event, outcome in zip(events, outcomes, strict=True):
        if outcome.error is not None:
            raise outcome.error
        found[id(event)] = bool(outcome.rows.item())
    return found
