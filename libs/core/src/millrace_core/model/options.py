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
    TIME = "a start time, or nothing"
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


STORED = "only what is stored can be taken back"
EITHER = "history is calculated beside what is live, or before it"
OPTIONS: dict[str, OptionRule] = {
    rule.keyword: rule
    for rule in (
        OptionRule(
            "WATERMARK",
            "watermark",
            "Rows wait until event time has moved on by so much; what comes later than that is late.",
            Takes.DURATION,
            DurationRule(FIXED_UNITS, zero=True),
            ignored=Trait.CLOCK,
            within="EXPIRED_TIME",
            apart="rows would be too old while they still wait",
        ),
        OptionRule(
            "EXPIRED_TIME",
            "expired_time",
            "Rows older than the newest by more trigger and recalculate nothing; queries still read them.",
            Takes.DURATION,
            DurationRule(SHORT_UNITS),
            ignored=Trait.CLOCK,
        ),
        OptionRule(
            "IGNORE_DISORDER",
            "ignore_disorder",
            "Late rows and updates change no window; else the windows that they touch are recalculated.",
            ignored=Trait.FINAL,
        ),
        OptionRule(
            "DELETE_RECALC",
            "delete_recalc",
            "Deleted rows, and rows of a dropped child table, recalculate the windows that they were in.",
            refused=Trait.FINAL,
        ),
        OptionRule(
            "DELETE_OUTPUT_TABLE",
            "delete_output_table",
            "A child table that is dropped takes its output table along.",
            needs=Needs.BY_CHILD,
            why="else no output table belongs to one child table",
        ),
        OptionRule(
            "FILL_HISTORY",
            "fill_history",
            "Rows from before the stream, from the start time on, trigger too; live triggers go first.",
            Takes.TIME,
            refused=Trait.CLOCK,
            excludes=_set("FILL_HISTORY_FIRST"),
            apart=EITHER,
        ),
        OptionRule(
            "FILL_HISTORY_FIRST",
            "fill_history_first",
            "Rows from before the stream, from the start time on, trigger first; live triggers wait.",
            Takes.TIME,
            refused=Trait.CLOCK,
            excludes=_set("FILL_HISTORY"),
            apart=EITHER,
        ),
        OptionRule(
            "CALC_NOTIFY_ONLY",
            "calc_notify_only",
            "Results are sent to the addresses of NOTIFY and not stored.",
            excludes=_set("RETRACT"),
            apart=STORED,
            needs=Needs.NOTIFY,
            why="else its results would go nowhere",
        ),
        OptionRule(
            "LOW_LATENCY_CALC",
            "low_latency_calc",
            "The stream is calculated before those that wait with it, and alone.",
        ),
        OptionRule(
            "PRE_FILTER",
            "pre_filter",
            "Only rows that meet the condition on columns and tags trigger; queries read all rows.",
            Takes.CONDITION,
            needs=Needs.TABLE,
            why="without it there are no rows to filter",
        ),
        OptionRule(
            "FORCE_OUTPUT",
            "force_output",
            "A query without a result writes one row: constants and placeholders, NULL for columns.",
        ),
        OptionRule(
            "MAX_DELAY",
            "max_delay",
            "A window that is open calculates whenever so much processing time has passed, whatever "
            "EVENT_TYPE says.",
            Takes.DURATION,
            DurationRule("smhd", low=Duration(3, "s")),
            ignored=Trait.INSTANTS,
        ),
        OptionRule(
            "EVENT_TYPE",
            "event_types",
            "Whether windows calculate when they open, when they close (the default), or both.",
            Takes.EVENTS,
            ignored=Trait.INSTANTS,
        ),
        OptionRule(
            "IGNORE_NODATA_TRIGGER",
            "ignore_nodata_trigger",
            "No trigger where the trigger table has no rows in the window, or since the trigger before.",
            ignored=Trait.ROWS,
            needs=Needs.TABLE,
            why="without it there are no rows to look for",
        ),
        OptionRule(
            "RETRACT",
            "obsolete",
            "Results of windows that no longer exist (merged, split, emptied) leave the output table; the "
            "query's first column is _twstart.",
            refused=Trait.FINAL,
            excludes=_set("CALC_NOTIFY_ONLY"),
            apart=STORED,
            needs=Needs.OUTPUT,
            why="without it there are no results to take back",
            emits=True,
            sets="retracted",
        ),
    )
}
"""The options by their keyword in SQL."""

NOTIFY_OPTIONS: dict[str, str] = {"NOTIFY_HISTORY": "history", "ON_FAILURE_PAUSE": "pause_on_failure"}
"""Each of NOTIFY_OPTIONS with its field of ``model.stream.Notify``."""
