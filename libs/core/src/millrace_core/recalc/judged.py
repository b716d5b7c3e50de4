"""Which streams can be verified, and which stored rows they have evaluated: from definitions alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from millrace_core.model.stream import StreamSpec
from millrace_core.store.place import Spans, spans_of
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.types import type_of
from millrace_core.wire import control
from millrace_core.wire.control import Offsets

FAR_OFFSET = 1 << 47


class Judged(msgspec.Struct, frozen=True):
    """``live_from``: rows of the WAL count from these offsets on. ``whole``: ranges of time (first, last) of
    history and of recalculations by hand, in which all rows count, whenever they were written."""

    live_from: Offsets = {}
    whole: tuple[tuple[int, int], ...] = ()

    @property
    def spans(self) -> Spans:
        """The places in the log whose rows count because they were written there."""
        return spans_of({partition: (begin, FAR_OFFSET) for partition, begin in self.live_from.items()})


def judged_of(uid: int, told: Iterable[control.AnyControl]) -> Judged:
    """What the control records say about a stream. A START changes nothing: rows that were written while the
    stream was stopped are verified like any others."""
    live_from: Offsets = {}
    whole: list[tuple[int, int]] = []
    defined = False
    for record in told:
        match record:
            case control.DefineStream(spec=spec) if spec.uid == uid and not defined:
                defined, live_from = True, record.live_from
                history = spec.options.fill_history
                if history is None:
                    history = spec.options.fill_history_first
                if history is not None:
                    whole.append((max(history, -RANGE), RANGE))
            case control.RecalculateStream(uid=mine, first=first, last=last) if mine == uid:
                whole.append((max(first, -RANGE), RANGE if last is None else min(last, RANGE)))
            case _:
                pass  # a record of another stream, or one that does not affect which rows count
    return Judged(live_from, merged(whole))


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same times as ranges in order, none of which touch."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        elif first <= last:
            found.append((first, last))
    return tuple(found)


def refusal(spec: StreamSpec) -> str | None:
    """Why a stream cannot be verified; None if it can."""
    type_ = type_of(spec.trigger)
    if type_.by_clock:
        why = "the rows' times do not show which rows a result was made from"
        return f"{type_.keyword} triggers by the clock: {why}"
    if spec.emission.when == "force_window_close":
        return (
            "FORCE_WINDOW_CLOSE: the clock closes each window once, with the rows written by then; the "
            "stored rows do not show which rows those were"
        )
    if spec.source is None:
        return "it has no trigger table"
    if spec.query is None or spec.output is None:
        return "it has no output table: there is nothing to compare with"
    if spec.options.calc_notify_only:
        return "with CALC_NOTIFY_ONLY it stores no results: there is nothing to compare with"
    if spec.source.table.virtual:
        return "its trigger table is virtual: windows are rebuilt from stored rows, and it stores none"
    if "WINDOW_CLOSE" not in spec.options.event_types and type_.window:
        return "EVENT_TYPE: it calculates only at WINDOW_OPEN, from the rows that were there at that moment"
    return None
