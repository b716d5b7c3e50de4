"""What FILL asks for: its clause, read together with the windows that it fills."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import TICKS_PER_SECOND
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.scope import Context, Scope
from millrace_core.plan.types.constants import constant
from millrace_core.plan.types.typed import BIGINT, cast, fail
from millrace_core.plan.windows.interval import IntervalWindows
from millrace_core.plan.windows.range import range_of

MOST_WINDOWS = 10_000_000
FORCED = {"NULL_F": "NULL", "VALUE_F": "VALUE"}


@dataclass(frozen=True)
class Filling:
    """What FILL asks for. ``low``, ``high``: the first and last tick of the range, as expressions over
    constants and placeholders; None: where the rows begin or end. ``at``: the clause."""

    mode: str
    forced: bool
    values: tuple[exp.Expr, ...]
    grid: IntervalWindows
    low: exp.Expr | None
    high: exp.Expr | None
    at: exp.Expr

    @staticmethod
    def of(fill: exp.Expr, grid: IntervalWindows, scope: Scope, ctx: Context) -> Filling:
        """Read the clause, and the range from WHERE or from the trigger's own rows.

        :raises SqlError: NOT_ALLOWED without a range, INVALID_VALUE for values that are not constant and for
            a range that is too long.
        """
        relation = scope.timed
        assert relation is not None
        lowering = Lowerer(scope, ctx)
        values = tuple(lowering.visit(node) for node in fill.expressions)
        for value in values:
            if value.find(exp.Column) is not None:
                raise fail(ErrorCode.INVALID_VALUE, "the values of FILL must be constants", value)
        low, high = range_of(scope, relation, ctx)
        streaming = bool(ctx.placeholders)
        forced = fill.this in FORCED
        if (low is None or high is None) and (forced or not streaming):
            message = f"FILL({fill.this}) needs a WHERE with the first and the last time to fill"
            raise fail(ErrorCode.NOT_ALLOWED, message, fill)
        _check_length(fill, grid, low, high)
        return Filling(FORCED.get(fill.this, fill.this), forced, values, grid, low, high, fill)

    @property
    def constant(self) -> bool:
        """Whether the length of the range is known during planning, and so has been checked."""
        return all(node is not None and constant(node) is not None for node in (self.low, self.high))

    @property
    def first(self) -> exp.Expr | None:
        """The position of the last window that begins at or before ``low``. Earlier windows that contain
        ``low`` too (SLIDING) only appear if they have rows, as in TDengine."""
        return None if self.low is None else cast(self.grid.position(self.low.copy()), BIGINT)

    @property
    def last(self) -> exp.Expr | None:
        return None if self.high is None else cast(self.grid.position(self.high.copy()), BIGINT)


def _check_length(fill: exp.Expr, grid: IntervalWindows, low: exp.Expr | None, high: exp.Expr | None) -> None:
    first, last = (None if node is None else constant(node) for node in (low, high))
    if first is None or last is None:
        return
    step = grid.step
    if grid.positions == "months":
        step *= 28 * 86_400 * TICKS_PER_SECOND[grid.precision]
    if (last - first) // step >= MOST_WINDOWS:
        message = f"FILL would make more than {MOST_WINDOWS} windows"
        raise fail(ErrorCode.INVALID_VALUE, message, fill)
