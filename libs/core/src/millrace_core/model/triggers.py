"""The seven trigger types: one table of what each takes and allows (seed 000), read by the validator."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace_core.model import stream
from millrace_core.model.rules import ALL_UNITS, FIXED_UNITS, SHORT_UNITS, DurationRule, IntegerRule
from millrace_core.model.stream import Duration

PERIOD_RULE = DurationRule(SHORT_UNITS, low=Duration(10, "a"), high=Duration(3650, "d"))
DAY_OFFSET = DurationRule("asmh", below=Duration(1, "d"), zero=True)
INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """One row. ``rules``: by the seed's name of the argument.

    ``needs_table``: FROM cannot be left out. ``window``: it has windows (open and close events), rather than
    instants. ``by_child``: on a super table it must be grouped by tbname. ``recalculates``: disorder, updates
    and (with DELETE_RECALC) deletes make it compute again.
    """

    type: type[stream.Trigger]
    keyword: str
    rules: dict[str, DurationRule | IntegerRule] = field(default_factory=dict)
    needs_table: bool = True
    window: bool = True
    by_child: bool = False
    takes_true_for: bool = False
    recalculates: bool = True

    @property
    def name(self) -> str:
        """The trigger type as notifications call it."""
        return self.type.__name__


TRUE_FOR = DurationRule(FIXED_UNITS, zero=True)

TRIGGERS: dict[str, TriggerRule] = {
    rule.keyword: rule
    for rule in (
        TriggerRule(
            stream.Period, "PERIOD", {"period_time": PERIOD_RULE, "offset_time": DAY_OFFSET},
            needs_table=False, window=False, recalculates=False,
        ),
        TriggerRule(
            stream.Sliding, "SLIDING", {"sliding_val": PERIOD_RULE, "offset_time": DAY_OFFSET},
            window=False, recalculates=False,
        ),
        TriggerRule(
            stream.Interval, "INTERVAL",
            {
                "interval_val": DurationRule(ALL_UNITS, low=Duration(10, "a")),
                "interval_offset": DurationRule(FIXED_UNITS, zero=True),
                "sliding_val": DurationRule(ALL_UNITS, low=Duration(10, "a")),
            },
        ),
        TriggerRule(stream.Session, "SESSION", {"session_val": DurationRule(FIXED_UNITS)}),
        TriggerRule(
            stream.State, "STATE_WINDOW", {"extend": IntegerRule(0, 2)}, by_child=True, takes_true_for=True
        ),
        TriggerRule(stream.Event, "EVENT_WINDOW", by_child=True, takes_true_for=True),
        TriggerRule(
            stream.Count, "COUNT_WINDOW",
            {"count_val": IntegerRule(1, INT32), "sliding_val": IntegerRule(1, INT32)},
            by_child=True, recalculates=False,
        ),
    )
}  # fmt: skip
"""By the keyword in SQL."""
