"""The trigger of a stream, with its arguments checked against the table of triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace_core.conditions import condition
from millrace_core.errors import ErrorCode, Position
from millrace_core.language.arguments import bad, duration, integer, name
from millrace_core.language.statements import Argument, TriggerClause
from millrace_core.model.rules import DurationRule, IntegerRule
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Condition, Duration
from millrace_core.model.triggers import Trigger
from millrace_core.trigger.types import trigger_types, type_named
from millrace_core.trigger.types.arguments import Arguments
from millrace_core.trigger.types.trigger_type import TRUE_FOR


def trigger(clause: TriggerClause, table: Table | None, timezone: str) -> Trigger:
    """The trigger that a clause means. ``table`` None: a PERIOD without a table; texts that are compared with
    times are read in ``timezone``.

    :raises SqlError: for an argument that is missing, superfluous, of the wrong kind or out of range.
    """
    rule = type_named(clause.keyword)
    if clause.true_for is not None and not rule.takes_true_for:
        allowed = " and ".join(r.keyword for r in trigger_types() if r.takes_true_for)
        where = clause.true_for_position or clause.position
        raise bad(f"TRUE_FOR can be used only with {allowed}, not with {clause.keyword}", where)
    spec: Trigger = rule.read(_Given(clause, clause.arguments, rule.rules, table, timezone))
    return spec


class _Given(Arguments):
    """The arguments of one clause, taken one by one. ``table`` None: the trigger has no table."""

    def __init__(
        self, clause: TriggerClause, left: Sequence[Argument],
        rules: Mapping[str, DurationRule | IntegerRule], table: Table | None, timezone: str,
    ) -> None:  # fmt: skip
        self._clause, self._left, self._rules = clause, list(left), rules
        self._table, self._timezone = table, timezone

    @property
    def table(self) -> Table:
        assert self._table is not None, "checked before: this trigger needs a table"
        return self._table

    @property
    def more(self) -> bool:
        return bool(self._left)

    @property
    def at_number(self) -> bool:
        return bool(self._left) and self._left[0].text[:1] in "0123456789+-"

    @property
    def here(self) -> Position:
        return self._left[0].position if self._left else self._clause.position

    def _named(self, what: str) -> str:
        return f"{self._clause.keyword}: {what}"

    def _take(self, what: str) -> Argument:
        if not self._left:
            raise bad(f"{self._named(what)} is missing", self._clause.position)
        return self._left.pop(0)

    def duration(self, what: str) -> Duration:
        rule = self._rules[what]
        assert isinstance(rule, DurationRule)
        precision = self._table.precision if self._table else None
        return duration(self._take(what), self._named(what), rule, precision)

    def optional_duration(self, what: str) -> Duration | None:
        return self.duration(what) if self._left else None

    def integer(self, what: str) -> int:
        rule = self._rules[what]
        assert isinstance(rule, IntegerRule)
        return integer(self._take(what), self._named(what), rule)

    def column(self, what: str) -> tuple[Column, Position]:
        """An ordinary column of the trigger table, or its time column."""
        argument = self._take(what)
        found = name(argument, self._named(what))
        column = self.table.column(found)
        if column is None:
            kind = "a tag" if self.table.tag(found) else "not a column"
            raise bad(
                f"{self._named(what)} {found} is {kind} of {self.table.name}; a column is needed",
                argument.position,
                ErrorCode.BAD_STREAM if self.table.tag(found) else ErrorCode.UNKNOWN_COLUMN,
            )
        return column, argument.position

    def condition(self, what: str) -> Condition:
        return condition(self._take(what), self._named(what), self.table, self._timezone)

    def true_for(self) -> Duration | None:
        if self._clause.true_for is None:
            return None
        return duration(self._clause.true_for, "TRUE_FOR: duration_time", TRUE_FOR, self.table.precision)

    def then(self) -> Arguments:
        return _Given(self._clause, self._clause.sliding, self._rules, self._table, self._timezone)

    def done(self) -> None:
        if self._left:
            raise bad(
                f"{self._clause.keyword}: unexpected argument {self._left[0].text}",
                self._left[0].position,
            )
