"""What the open windows of a group are and what each waits for: read from the windowers' memories.

One function for each type of windower. Nothing is changed here; the rules are those of the windowers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from millrace_core.trigger.count import CountWindower
from millrace_core.trigger.event import UNKNOWN, EventWindower
from millrace_core.trigger.groups.watermark import NEVER
from millrace_core.trigger.interval import IntervalWindower
from millrace_core.trigger.session import SessionWindower
from millrace_core.trigger.sliding import SlidingWindower
from millrace_core.trigger.state import StateWindower
from millrace_core.trigger.windower import Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait

ROW = Wait("row")


def waits_of(windower: Windower, memory: Any, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
    """The open windows of a group, in order, and what it waits for where none is open.

    ``watermark`` in ticks: T lies so far behind the newest row.

    :raises TypeError: for PERIOD, whose groups know nothing of windows.
    """
    match windower:
        case IntervalWindower():
            return _interval(windower, memory, watermark), [ROW]
        case SlidingWindower():
            return _sliding(windower, memory, watermark), [ROW]
        case SessionWindower():
            return _session(windower, memory, watermark), [ROW]
        case StateWindower():
            return _state(windower, memory), [ROW]
        case EventWindower():
            return _event(windower, memory), [Wait("start")]
        case CountWindower():
            return _count(windower, memory), [ROW]
    raise TypeError(f"{type(windower).__name__} has no windows of rows")


def _interval(windower: IntervalWindower, memory: Any, watermark: int) -> list[OpenWindow]:
    return [
        OpenWindow(start, end, rows, [Wait("row_at", end + watermark)])
        for start, end, rows in windower.so_far(memory)
    ]


def _sliding(windower: SlidingWindower, memory: Any, watermark: int) -> list[OpenWindow]:
    """The next instant; with IGNORE_NODATA_TRIGGER the next one that owns rows."""
    if memory.past == NEVER:
        return []
    share = memory.shares[0] if memory.shares else None
    instant = windower.after(memory.past, memory.past)
    if not windower.empty:
        if share is None:
            return []
        instant = share.instant
    rows = 0
    if share is not None and share.instant == instant:
        rows = -1 if share.unsure else share.rows
    previous = windower.at_or_before(instant - 1, instant)
    return [OpenWindow(previous, instant, rows, [Wait("row_at", instant + watermark)])]


def _session(windower: SessionWindower, memory: Any, watermark: int) -> list[OpenWindow]:
    if not memory.rows:
        return []
    # T must lie behind last + gap: a row exactly there still belongs to the session
    waits = [Wait("row_at", memory.last + windower.gap + 1 + watermark)]
    if memory.vague:
        waits.append(Wait("again"))
    return [OpenWindow(memory.start, memory.last, -1 if memory.unsure else memory.rows, waits)]


def _state(windower: StateWindower, memory: Any) -> list[OpenWindow]:
    if memory.state is None:
        return []
    waits = [Wait("state", words=msgspec.json.encode(memory.state).decode())]
    if memory.start == NEVER:
        return [OpenWindow(None, memory.last, -1, [*waits, Wait("again")])]
    waits += _true_for(windower.rule.true_for, memory.start, memory.last)
    return [OpenWindow(memory.start, memory.last, memory.rows, waits)]


def _event(windower: EventWindower, memory: Any) -> list[OpenWindow]:
    if memory.start == NEVER:
        return []
    waits = [Wait("end"), *_true_for(windower.rule.true_for, memory.start, memory.last)]
    if memory.told == UNKNOWN:
        waits.append(Wait("again"))
    return [OpenWindow(memory.start, memory.last, memory.rows, waits)]


def _true_for(true_for: int, start: int, last: int) -> list[Wait]:
    return [Wait("true_for", start + true_for)] if last - start < true_for else []


def _count(windower: CountWindower, memory: Any) -> list[OpenWindow]:
    return [
        OpenWindow(start, last, rows, [Wait("rows", windower.count - rows)])
        for start, last, rows in windower.so_far(memory)
    ]
