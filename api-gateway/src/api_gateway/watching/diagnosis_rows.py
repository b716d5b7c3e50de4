"""What the slots say about a stream, as rows and texts: first the verdict, then what it is based on. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from millrace_core.model.life import life_of, shown_state
from millrace_core.model.schema import Precision
from millrace_core.model.stream import StreamSpec
from millrace_core.timeline import format_local, from_ns
from millrace_core.trigger.types import type_of
from millrace_core.wire.counters import BY_NAME, merged
from millrace_core.wire.diagnosis import Diagnosis, GroupPart, OpenWindow, Wait

Row = list[object]
SHOWN = (
    "rows_read", "filtered", "rows_used", "late_used", "late", "expired", "out_of_range", "null_columns",
    "unknown_table", "undecodable", "empty_windows", "events_sent",
)  # fmt: skip
"""The counters that have a row, in this order, even while they are 0."""


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that is known. ``missing``: slots that did not answer within ``seconds``."""

    spec: StreamSpec
    status: str
    message: str
    parts: Sequence[Diagnosis]
    missing: int
    seconds: float
    timezone: str
    limit: int

    @property
    def hosts(self) -> list[Diagnosis]:
        return [part for part in self.parts if part.hosted]

    @property
    def table(self) -> str:
        source = self.spec.source
        return "" if source is None else f"{source.table.db}.{source.child or source.table.name}"

    @property
    def precision(self) -> Precision:
        return "ms" if self.spec.source is None else self.spec.source.table.precision

    def time(self, ticks: int) -> str:
        """An event time as text, in the session's time zone."""
        return f"'{format_local(ticks, self.precision, self.timezone)}'"

    def clock(self, ns: int) -> str:
        """A processing time as text."""
        return f"'{format_local(from_ns(ns, 'ms'), 'ms', self.timezone)}'"


def rows_of(case: Case) -> list[Row]:
    """(about, group, item, amount, ts, te, detail): the stream, its rows, then its groups, the one with the
    newest row first, each followed by its windows."""
    totals = Counter(merged(part.totals for part in case.hosts))
    groups = sorted(
        (group for part in case.hosts for group in part.groups),
        key=lambda group: (group.newest is None, -(group.newest or 0), _name(case, group)),
    )
    shown = groups[: case.limit]
    left = sum(part.total for part in case.hosts) - len(shown)
    rows = [
        _row("stream", "status", detail=_status(case)),
        _row("stream", "verdict", detail=_verdict(case, totals)),
    ]
    if case.missing:
        detail = (
            f"{case.missing} of {case.missing + len(case.parts)} slots of trigger-svc did not answer "
            f"within {case.seconds:g} s: it is down or busy; what they know is missing below"
        )
        rows.append(_row("stream", "slots_missing", case.missing, detail=detail))
    rows += _held(case)
    rows += _counters(case, totals)
    for group in shown:
        rows += _group(case, group)
    if left:
        detail = f"{left} more groups, with older rows, are not shown (LIMIT {case.limit})"
        rows.append(_row("stream", "groups_left_out", left, detail=detail))
    return rows


def _row(
    about: str, item: str, amount: int | None = None, ts: int | None = None, te: int | None = None,
    detail: str = "", group: str | None = None,
) -> Row:  # fmt: skip
    return [about, group, item, amount, ts, te, detail]


# ---------------------------------------------------------------------- the stream


def _status(case: Case) -> str:
    return f"{case.status}: {case.message}" if case.message else case.status


def _verdict(case: Case, totals: Counter[str]) -> str:
    """The first cause that applies, looking from the outside in."""
    return next(_causes(case, totals))


def _causes(case: Case, totals: Counter[str]) -> Iterator[str]:
    spec, hosts = case.spec, case.hosts
    start = f"{life_of(spec).start} STREAM {spec.full_name}"
    failure = next((part.failure for part in case.parts if part.failure), "")
    if failure:
        yield f"trigger-svc has set it aside, so nothing triggers it: {failure}. {start} tries again."
    if any(part.gone for part in hosts):
        yield f"Its trigger table {case.table} was dropped: nothing triggers it any more."
    if case.status == "Failed":
        yield f"Its last calculation failed: {case.message}"
    if case.status == "Stopped":
        state = shown_state(spec, case.status).lower()
        yield f"It is {state}: rows written now do not trigger it. {start} starts it."
    if case.status == "Init" or not hosts:
        yield "trigger-svc has not taken it up yet: until it does, no row is evaluated."
    if case.status == "Paused":
        yield f"Its calculations are waiting: {case.message}"
    if any(part.holding for part in hosts):
        yield "It is waiting for history: live rows are held until the rows before them have been evaluated."
    fired, last = totals["events_sent"], totals["last_trigger"]
    if fired:
        when = f", the last one for data written at {case.clock(last)}" if last else ""
        yield f"It is running, and has sent {fired} trigger events{when}. {_next(case)}"
    if type_of(spec.trigger).by_clock:
        yield f"It is running, but has not fired since it was created or started. {_next(case)}"
    yield from _without_events(case, totals)


def _without_events(case: Case, totals: Counter[str]) -> Iterator[str]:
    """Why a running stream that is triggered by rows has never fired."""
    known = sum(totals[name] for name in ("undecodable", "unknown_table"))
    judged = any(group.newest is not None for part in case.hosts for group in part.groups)
    if not totals["rows_read"] and not judged:
        if not known:
            yield f"No row of its trigger table {case.table} has arrived since it was created or started."
        yield f"Nothing that arrived for {case.table} could be used: see undecodable and unknown_table."
    if totals["filtered"] and totals["filtered"] >= totals["rows_read"]:
        yield f"PRE_FILTER lets none of the {totals['filtered']} rows pass."
    if judged:
        yield f"It is running, but no window or instant is complete yet. {_next(case)}"
    yield f"None of the {totals['rows_read']} rows that arrived counts: see the causes below."


def _next(case: Case) -> str:
    if case.spec.source is None or type_of(case.spec.trigger).by_clock:
        return "What it is waiting for is listed below."
    return "What each group is waiting for is listed below."


def _held(case: Case) -> list[Row]:
    """How much is kept of the stream, and how much of that in one slot at most: the limit is per slot."""
    counts = {
        "groups": ([part.total for part in case.hosts], "groups"),
        "open_windows": ([part.windows for part in case.hosts], "open windows"),
        "rows_waiting": ([part.waiting for part in case.hosts], "rows waiting for the watermark"),
    }
    return [
        _row("stream", item, sum(found), detail=f"{words} are kept, at most {max(found)} of them in one slot "
             "(the limit is MILLRACE_TRIGGER_MOST_HELD)")
        for item, (found, words) in counts.items() if sum(found)
    ]  # fmt: skip


def _counters(case: Case, totals: Counter[str]) -> list[Row]:
    """The counters' rows. PERIOD reads no rows to trigger, so it only gets counters that are not 0."""
    wanted = [name for name in SHOWN if totals[name] or not type_of(case.spec.trigger).by_clock]
    return [_row("rows", name, totals[name], detail=BY_NAME[name].meaning) for name in wanted]


# ---------------------------------------------------------------------- groups and windows


def _name(case: Case, group: GroupPart) -> str:
    key = group.group.key
    table = None if case.spec.keys else group.group.table  # with keys, one table has several groups
    return table or ",".join("NULL" if one is None else str(one) for one in key)


def _group(case: Case, part: GroupPart) -> list[Row]:
    name = _name(case, part) or None
    rows: list[Row] = []
    if part.newest is not None and part.until is not None:
        rows.append(
            _row("group", "watermark", part.waiting, part.until, part.newest, _watermark(case, part), name)
        )
    if part.held:
        detail = f"{part.held} live rows are held until history has been evaluated"
        rows.append(_row("group", "held", part.held, detail=detail, group=name))
    rows += [_window(case, window, name) for window in part.windows]
    if part.more:
        rows.append(_row("window", "more", part.more, detail=f"{part.more} more open windows", group=name))
    if part.waits:
        detail = f"waiting for {_waits(case, part.waits)}"
        item = "instant" if type_of(case.spec.trigger).by_clock else "none_open"
        at = from_ns(part.waits[0].at, case.precision) if part.waits[0].what == "time" else None
        rows.append(_row("window", item, None, at, detail=detail, group=name))
    return rows


def _watermark(case: Case, part: GroupPart) -> str:
    option = case.spec.options.watermark
    lag = f", WATERMARK({option}) behind the newest row" if option else ", the time of the newest row"
    detail = f"the watermark is {case.time(part.until or 0)}{lag}"
    if part.waiting:
        behind = (part.newest or 0) - (part.until or 0)
        detail += (
            f"; {part.waiting} rows are waiting for it, the oldest for a row with ts >= "
            f"{case.time(part.first_waiting + behind)}"
        )
    return detail


def _window(case: Case, window: OpenWindow, group: str | None) -> Row:
    rows = None if window.rows < 0 else window.rows
    detail = f"waiting for {_waits(case, window.waits)}"
    return _row("window", "open", rows, window.start, window.end, detail, group)


def _waits(case: Case, waits: Sequence[Wait]) -> str:
    first, *others = (_words(case, wait) for wait in waits)
    return first + "".join(others)


def _words(case: Case, wait: Wait) -> str:
    trigger, watermark = case.spec.trigger, case.spec.options.watermark
    type_ = type_of(trigger)
    passed = " that PRE_FILTER lets pass" if case.spec.options.pre_filter else ""
    turn = f", and for the watermark to reach it (WATERMARK({watermark}))" if watermark else ""
    match wait.what:
        case "row":
            return f"a row of {case.table}{passed}{turn}"
        case "row_at":
            lag = f" (WATERMARK({watermark}) included)" if watermark else ""
            return f"a row{passed} with ts >= {case.time(wait.at)}{lag}"
        case "state":
            return f"a row{passed} with a state other than {wait.words}{turn}"
        case "rows":
            columns = ", ".join(type_.counted(trigger))
            counted = f" in which {columns} is not NULL" if columns else ""
            return f"{wait.at} more rows{passed}{counted}{turn}"
        case "true_for":
            true_for = getattr(trigger, "true_for", None)
            return f"; it counts only if it lasts until {case.time(wait.at)} (TRUE_FOR({true_for}))"
        case "again":
            return "; rows of it were deleted, so it will be cut again from the stored rows when it closes"
        case "delay":
            every = case.spec.options.max_delay
            at = case.clock(wait.at)
            return f", or for processing time {at} (MAX_DELAY({every})), when its rows so far are calculated"
        case "time":
            return f"processing time {case.clock(wait.at)}"
        case "data":
            return f", and a row of {case.table} written before it (IGNORE_NODATA_TRIGGER)"
        case what if what in type_.words:
            return f"a row{passed} that {type_.words[what](trigger)}{turn}"
    raise ValueError(f"{wait.what} does not go with {type_.name}")
