"""The options of an older stream: one table of what each trigger mode allows (seed 002, SEMANTICS S2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from millrace_core.errors import Position
from millrace_core.language.arguments import bad, duration
from millrace_core.language.statements import LegacyOption, LegacyQuery
from millrace_core.model.rules import FIXED_UNITS, DurationRule
from millrace_core.model.schema import Table
from millrace_core.model.stream import Duration, Emission, EmissionMode, Options
from millrace_core.timeline.precision import LOWEST, shortest_ns

FILLS = ("NONE", "NULL", "NULL_F", "VALUE", "VALUE_F", "PREV", "NEXT", "LINEAR")
ALL_WINDOWS = frozenset({"INTERVAL", "SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW"})
DELETE_MARK = Duration(3650, "d")
RECALCULATE = Duration(60, "m")
MOST_HISTORY = 20_000_000
"""The most windows of FILL_HISTORY."""


@dataclass(frozen=True, slots=True)
class ModeRule:
    """One row of the table. ``windowless``: whether queries without a window may use the mode; ``virtual``:
    whether queries over virtual tables may; ``changes``: whether it takes IGNORE EXPIRED 0 and IGNORE UPDATE
    0; ``delay``: what its own duration may be."""

    mode: EmissionMode
    windows: frozenset[str] = ALL_WINDOWS
    windowless: bool = False
    sliding: bool = True
    changes: bool = True
    history: bool = True
    virtual: bool = False
    fills: frozenset[str] = frozenset(FILLS)
    delay: DurationRule | None = None


MODES: dict[str, ModeRule] = {
    "AT_ONCE": ModeRule("at_once", windowless=True, virtual=True),
    "WINDOW_CLOSE": ModeRule("window_close", virtual=True),
    "MAX_DELAY": ModeRule("max_delay", delay=DurationRule(FIXED_UNITS, low=Duration(5, "s"))),
    "FORCE_WINDOW_CLOSE": ModeRule(
        "force_window_close", frozenset({"INTERVAL"}), sliding=False, changes=False, history=False,
        fills=frozenset({"PREV", "NULL", "NULL_F", "NONE", "VALUE", "VALUE_F"}),
    ),
    "CONTINUOUS_WINDOW_CLOSE": ModeRule(
        "continuous_window_close", frozenset({"INTERVAL"}),
        delay=DurationRule(FIXED_UNITS, low=Duration(1, "s")),
    ),
}  # fmt: skip
"""The rules by the word after TRIGGER."""
_FREE = DurationRule(FIXED_UNITS, zero=True)


def judged(
    given: tuple[LegacyOption, ...],
    query: LegacyQuery,
    table: Table,
    *,
    grouped_by_child: bool,
    on_super: bool,
) -> tuple[Emission, Options]:
    """The meaning of the options.

    :raises SqlError: for a duration out of range, and for a combination that the mode, the window or the
        table does not allow. It says which and why, with the place of the option.
    """
    options = {option.keyword: option for option in given}
    trigger = options.get("TRIGGER")
    word = trigger.value.text if trigger else "WINDOW_CLOSE" if query.window else "AT_ONCE"
    rule = MODES[word]
    where = trigger.value.position if trigger else query.table.position
    _check_window(word, rule, query, where)
    _check_flags(word, rule, options)
    watermark = _duration(options, "WATERMARK", table)
    mark = _duration(options, "DELETE_MARK", table) or DELETE_MARK
    least = watermark or Duration(0, "s")
    if shortest_ns(mark) <= shortest_ns(least):
        at = (options.get("DELETE_MARK") or options["WATERMARK"]).position
        raise bad(f"DELETE_MARK {mark} must be longer than WATERMARK {least}", at)
    if query.window is not None and query.window.keyword == "COUNT_WINDOW":
        _check_count(options, watermark, query.window.position)
    if word == "FORCE_WINDOW_CLOSE" and on_super and not grouped_by_child:
        raise bad("FORCE_WINDOW_CLOSE on a super table needs PARTITION BY tbname", where)
    if table.virtual:
        _check_virtual(word, rule, options, query, watermark, where)
    emission = Emission(
        rule.mode,
        _delay(trigger, rule, word),
        obsolete="retracted",
        late="dropped" if _flag(options, "IGNORE EXPIRED", 1) else "recalculated",
        rewritten=_rewritten(query, options),
        forget=mark,
        fill=_fill(query, rule, word),
        untreated="live",
        most_history=MOST_HISTORY,
    )
    history = LOWEST if _flag(options, "FILL_HISTORY", 0) else None
    zero = watermark is None or watermark.value == 0
    return emission, Options(watermark=None if zero else watermark, fill_history=history)


def _rewritten(query: LegacyQuery, options: Mapping[str, LegacyOption]) -> Literal["corrected", "counted"]:
    """The result of a single row is overwritten along with the row, whatever the option says."""
    counted = query.window is not None and _flag(options, "IGNORE UPDATE", 1)
    return "counted" if counted else "corrected"


def _flag(options: Mapping[str, LegacyOption], keyword: str, default: int) -> bool:
    return bool(int(options[keyword].value.text)) if keyword in options else bool(default)


def _duration(options: Mapping[str, LegacyOption], keyword: str, table: Table) -> Duration | None:
    option = options.get(keyword)
    return duration(option.value, keyword, _FREE, table.precision) if option else None


def _delay(trigger: LegacyOption | None, rule: ModeRule, word: str) -> Duration | None:
    if trigger is None or trigger.more is None:
        return RECALCULATE if rule.mode == "continuous_window_close" else None
    assert rule.delay is not None, "the grammar takes a duration where there is a rule for it"
    what = "RECALCULATE" if rule.mode == "continuous_window_close" else word
    return duration(trigger.more, what, rule.delay, "ns")


def _check_window(word: str, rule: ModeRule, query: LegacyQuery, where: Position) -> None:
    window = query.window
    if window is None:
        if not rule.windowless:
            raise bad(
                f"TRIGGER {word} needs a window in the query; without one, results are immediate", where
            )
        if query.fill is not None:
            raise bad("FILL needs INTERVAL", query.fill.position)
        return
    if window.keyword not in rule.windows:
        allowed = ", ".join(sorted(rule.windows))
        raise bad(f"TRIGGER {word} cannot be used with {window.keyword}, only with {allowed}", where)
    if not rule.sliding and window.sliding and window.sliding[0] != window.arguments[0]:
        raise bad(f"TRIGGER {word} cannot be used with SLIDING", window.sliding[0].position)
    if query.fill is not None and window.keyword != "INTERVAL":
        raise bad(f"FILL needs INTERVAL; it cannot be used with {window.keyword}", query.fill.position)


def _check_flags(word: str, rule: ModeRule, options: Mapping[str, LegacyOption]) -> None:
    for keyword in ("IGNORE EXPIRED", "IGNORE UPDATE"):
        if not rule.changes and not _flag(options, keyword, 1):
            raise bad(f"TRIGGER {word} needs {keyword} 1", options[keyword].position)
    if not rule.history and _flag(options, "FILL_HISTORY", 0):
        raise bad(f"TRIGGER {word} needs FILL_HISTORY 0", options["FILL_HISTORY"].position)


def _check_count(options: Mapping[str, LegacyOption], watermark: Duration | None, where: Position) -> None:
    if watermark is None or watermark.value == 0:
        raise bad("COUNT_WINDOW needs a WATERMARK greater than 0", where)
    if not _flag(options, "IGNORE EXPIRED", 1):
        raise bad("COUNT_WINDOW needs IGNORE EXPIRED 1", options["IGNORE EXPIRED"].position)


def _check_virtual(
    word: str, rule: ModeRule, options: Mapping[str, LegacyOption], query: LegacyQuery,
    watermark: Duration | None, where: Position,
) -> None:  # fmt: skip
    what = "for a virtual table"
    if not rule.virtual:
        raise bad(f"TRIGGER {word} is not supported {what}", where)
    if watermark is not None and watermark.value:
        raise bad(f"WATERMARK must be 0 {what}", options["WATERMARK"].position)
    for keyword in ("IGNORE EXPIRED", "IGNORE UPDATE"):
        if not _flag(options, keyword, 1):
            raise bad(f"{keyword} 0 is not supported {what}", options[keyword].position)
    if _flag(options, "FILL_HISTORY", 0):
        raise bad(f"FILL_HISTORY 1 is not supported {what}", options["FILL_HISTORY"].position)
    if query.window is not None and query.window.keyword == "COUNT_WINDOW":
        raise bad(f"COUNT_WINDOW is not supported {what}", query.window.position)


def _fill(query: LegacyQuery, rule: ModeRule, word: str) -> str | None:
    if query.fill is None:
        return None
    mode = query.fill.text.partition(",")[0].strip().upper()
    if mode not in FILLS:
        raise bad(f"FILL({mode}): unknown mode; known modes: {', '.join(FILLS)}", query.fill.position)
    if mode not in rule.fills:
        allowed = ", ".join(name for name in FILLS if name in rule.fills)
        raise bad(
            f"TRIGGER {word} cannot be used with FILL({mode}), only with {allowed}", query.fill.position
        )
    return None if mode == "NONE" else query.fill.text
