"""STREAM_OPTIONS: one table of what each option takes, who refuses it and what it excludes (seed 000).

``docs/OPTIONS.md`` is this table for readers; a test keeps them equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from millrace_core.model.rules import FIXED_UNITS, SHORT_UNITS, DurationRule
from millrace_core.model.stream import Duration
from millrace_core.model.triggers import Trait

WINDOW_EVENTS = ("WINDOW_OPEN", "WINDOW_CLOSE")
"""Event types that a user may name; in NOTIFY, SLIDING and PERIOD have only ON_TIME."""


class Takes(Enum):
    """What stands in the parentheses of an option."""

    NOTHING = "no argument"
    DURATION = "a duration"
    TIME = "an optional start time"
    CONDITION = "a condition"
    EVENTS = "event types"


class Needs(Enum):
    """What an option cannot do without."""

    TABLE = "a trigger table (FROM)"
    BY_CHILD = "PARTITION BY tbname"
    NOTIFY = "NOTIFY"
    OUTPUT = "INTO"


@dataclass(frozen=True, slots=True)
class OptionRule:
    """One row of the table. ``field``: the field of ``model.stream.Options``, or of ``Emission`` if
    ``emits``; a flag sets it to ``sets``. ``refused``, ``ignored``: triggers with this trait do not take the
    option, or take it without effect. ``excludes``: options that cannot stand beside it; ``within``: an
    option whose duration must be at least as long, if both are given. ``why``: the reason for ``needs``;
    ``apart``: the reason for ``excludes`` or ``within``; both are for messages and the page. ``meaning``: a
    sentence for the page."""

    keyword: str
    field: str
    meaning: str
    takes: Takes = Takes.NOTHING
    rule: DurationRule | None = None
    refused: Trait | None = None
    ignored: Trait | None = None
    excludes: frozenset[str] = frozenset()
    within: str | None = None
    needs: Needs | None = None
    why: str = ""
    apart: str = ""
    emits: bool = False
    sets: object = True


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


STORED = "only stored results can be retracted"
EITHER = "history is calculated either alongside live data or before it"
OPTIONS: dict[str, OptionRule] = {
    rule.keyword: rule
    for rule in (
        OptionRule(
            "WATERMARK",
            "watermark",
            "Rows wait until event time has advanced by this much; rows that arrive after that are late.",
            Takes.DURATION,
            DurationRule(FIXED_UNITS, zero=True),
            ignored=Trait.CLOCK,
            within="EXPIRED_TIME",
            apart="rows would expire while they still wait",
        ),
        OptionRule(
            "EXPIRED_TIME",
            "expired_time",
            "Rows that are older than the newest row by more than this trigger nothing and cause no "
            "recalculation; queries still read them.",
            Takes.DURATION,
            DurationRule(SHORT_UNITS),
            ignored=Trait.CLOCK,
        ),
        OptionRule(
            "IGNORE_DISORDER",
            "ignore_disorder",
            "Late rows and updates do not change any window; without this option, the windows that they "
            "affect are recalculated.",
            ignored=Trait.FINAL,
        ),
        OptionRule(
            "DELETE_RECALC",
            "delete_recalc",
            "When rows are deleted or a child table is dropped, the windows that contained the rows are "
            "recalculated.",
            refused=Trait.FINAL,
        ),
        OptionRule(
            "DELETE_OUTPUT_TABLE",
            "delete_output_table",
            "When a child table is dropped, its output table is dropped too.",
            needs=Needs.BY_CHILD,
            why="otherwise no output table belongs to a single child table",
        ),
        OptionRule(
            "FILL_HISTORY",
            "fill_history",
            "Rows that were there before the stream trigger too, from the start time on; live triggers go "
            "first.",
            Takes.TIME,
            refused=Trait.CLOCK,
            excludes=_set("FILL_HISTORY_FIRST"),
            apart=EITHER,
        ),
        OptionRule(
            "FILL_HISTORY_FIRST",
            "fill_history_first",
            "Rows that were there before the stream trigger first, from the start time on; live triggers "
            "wait.",
            Takes.TIME,
            refused=Trait.CLOCK,
            excludes=_set("FILL_HISTORY"),
            apart=EITHER,
        ),
        OptionRule(
            "CALC_NOTIFY_ONLY",
            "calc_notify_only",
            "Results are sent to the NOTIFY addresses and not stored.",
            excludes=_set("RETRACT"),
            apart=STORED,
            needs=Needs.NOTIFY,
            why="otherwise its results would go nowhere",
        ),
        OptionRule(
            "LOW_LATENCY_CALC",
            "low_latency_calc",
            "The stream is calculated before other waiting streams, and separately from them.",
        ),
        OptionRule(
            "PRE_FILTER",
            "pre_filter",
            "Only rows that meet the condition (on columns and tags) trigger; queries read all rows.",
            Takes.CONDITION,
            needs=Needs.TABLE,
            why="without it there are no rows to filter",
        ),
        OptionRule(
            "FORCE_OUTPUT",
            "force_output",
            "If the query returns no rows, one row is written: constants and placeholders have their "
            "values, columns are NULL.",
        ),
        OptionRule(
            "MAX_DELAY",
            "max_delay",
            "An open window is calculated each time this much processing time has passed, regardless of "
            "EVENT_TYPE.",
            Takes.DURATION,
            DurationRule("smhd", low=Duration(3, "s")),
            ignored=Trait.INSTANTS,
        ),
        OptionRule(
            "EVENT_TYPE",
            "event_types",
            "Whether windows are calculated when they open, when they close (the default), or both.",
            Takes.EVENTS,
            ignored=Trait.INSTANTS,
        ),
        OptionRule(
            "IGNORE_NODATA_TRIGGER",
            "ignore_nodata_trigger",
            "Nothing is triggered if the trigger table has no rows in the window, or none since the "
            "previous trigger.",
            ignored=Trait.ROWS,
            needs=Needs.TABLE,
            why="without it there are no rows to look for",
        ),
        OptionRule(
            "RETRACT",
            "obsolete",
            "Results of windows that no longer exist (merged, split or emptied) are removed from the "
            "output table; the query's first column must be _twstart.",
            refused=Trait.FINAL,
            excludes=_set("CALC_NOTIFY_ONLY"),
            apart=STORED,
            needs=Needs.OUTPUT,
            why="without it there are no results to retract",
            emits=True,
            sets="retracted",
        ),
    )
}
"""The options by their keyword in SQL."""

NOTIFY_OPTIONS: dict[str, str] = {"NOTIFY_HISTORY": "history", "ON_FAILURE_PAUSE": "pause_on_failure"}
"""Each of NOTIFY_OPTIONS with its field of ``model.stream.Notify``."""
