"""What a job of one stream does, decided before anything is read or run, and what follows from its
results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from millrace_core.calc.conversion import scale
from millrace_core.calc.job_size import job_sizes
from millrace_core.calc.notices import notices
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.results import SubTable, Written, calculates, write_results
from millrace_core.calc.retraction import Found, Ranges, Stored, deletions, retracts, settled
from millrace_core.errors import MillraceError
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.message import Message
from millrace_core.wire.notices import NoticeText

Outcomes = Mapping[int, Outcome]
"""The outcomes of the events that were calculated, by ``id()`` of the event."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Events, in order, that Spark calculates together. ``asked``: those that ask for a calculation; for the
    others there are only notifications."""

    events: Sequence[TriggerEvent]
    asked: Sequence[TriggerEvent]

    @property
    def rows(self) -> int:
        """The number of rows in the windows that are calculated, as far as the trigger knows it."""
        return sum(event.rownum for event in self.asked)

    def of(self, events: Sequence[TriggerEvent]) -> Stage:
        """The stage reduced to these events."""
        kept = {id(event) for event in events}
        return Stage(events, [event for event in self.asked if id(event) in kept])


@dataclass(frozen=True, slots=True)
class Job:
    """``stages`` run one after the other. ``gone``: the groups whose table was dropped, which come after them
    (DELETE_OUTPUT_TABLE). ``missed``: how many events are left out because later ones replace them."""

    stages: Sequence[Stage]
    gone: Sequence[Group]
    missed: int

    @property
    def calculates(self) -> bool:
        """Whether any query runs."""
        return any(stage.asked for stage in self.stages)

    @property
    def events(self) -> int:
        return sum(len(stage.events) for stage in self.stages)


def job_of(spec: StreamSpec | None, batches: Sequence[TriggerBatch]) -> Job:
    """What is to be done with a stream's batches; ``spec`` is None if the stream no longer exists."""
    every = [event for batch in batches for event in batch.events]
    told = [event for event in every if event.kind != "GONE"]
    events = _not_missed(told)
    return Job(
        [
            Stage(part, [event for event in part if spec is not None and calculates(spec, event)])
            for part in job_sizes(events)
        ],
        [event.group for event in every if event.kind == "GONE"],
        len(told) - len(events),
    )


def _not_missed(events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
    """The events without the MAX_DELAY triggers that piled up while a calculation ran for longer than
    MAX_DELAY (seed 000): of several that wait for one window, only the last one counts."""
    last = {(e.group.id, e.start): at for at, e in enumerate(events) if e.cause == "DELAY"}
    return [e for at, e in enumerate(events) if e.cause != "DELAY" or last[e.group.id, e.start] == at]


def seen_by(batches: Sequence[TriggerBatch]) -> dict[int, int]:
    """How far the triggers have seen their table's WAL topic: partition -> the first offset not seen."""
    seen: dict[int, int] = {}
    for batch in batches:
        for partition, offset in batch.seen.items():
            seen[partition] = max(offset, seen.get(partition, 0))
        for event in batch.events:
            for partition, (_, end) in (event.written or {}).items():
                seen[partition] = max(end, seen.get(partition, 0))
    return seen


def of_known_tables(events: Sequence[TriggerEvent], names: Collection[str]) -> list[TriggerEvent]:
    """The events without those of tables that have been dropped since. ``names``: the tables that exist."""
    return [event for event in events if event.group.table is None or event.group.table in names]


def with_refusals(
    events: Sequence[TriggerEvent], outcomes: Outcomes, refused: Mapping[int, MillraceError]
) -> dict[int, Outcome]:
    """The outcomes, where an error replaces each result that cannot be written to its group's sub-table
    (``refused``: the reasons by the group's id). The other results are written, and the table that already
    has the name is left alone."""
    found = dict(outcomes)
    for event in events:
        if event.group.id in refused and found[id(event)].error is None:
            found[id(event)] = Outcome(pl.DataFrame(), refused[event.group.id])
    return found


def errors_of(outcomes: Outcomes) -> list[MillraceError]:
    """Why queries, or some partitions of them, gave no result."""
    told = (outcome.error or outcome.partial for outcome in outcomes.values())
    return [error for error in told if error is not None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a stage writes and tells. ``rows``: the number of result rows written; ``null_keys``: of rows left
    out because their key is NULL. ``times``: the times of the rows by sub-table, if the stream retracts
    rows."""

    messages: Sequence[Message]
    notices: Sequence[NoticeText]
    rows: int = 0
    null_keys: int = 0
    times: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[str]:
        """By counters of ``wire.counters``."""
        return Counter(result_rows=self.rows, null_key=self.null_keys)


@dataclass(frozen=True, slots=True)
class OutputTable:
    """Where a stream's results go. ``table``: the output table as it is now; ``home``: the sub-table of a
    group; ``known``: whether a sub-table of this name exists; ``stored``: what sub-tables hold."""

    table: Table
    home: Callable[[Group], SubTable]
    known: Callable[[str], bool]
    stored: Stored = lambda wanted: {}


def writes(spec: StreamSpec) -> bool:
    """Whether results are written, and not only sent as notifications."""
    return spec.output is not None and not spec.options.calc_notify_only


def deliver(
    spec: StreamSpec, plan: Plan | None, output: OutputTable | None, events: Sequence[TriggerEvent],
    outcomes: Outcomes, met: Mapping[int, bool] | None,
) -> Delivery:  # fmt: skip
    """The rows and notifications of a stage. ``output``: None for a stream without an output table. ``met``:
    whether each event (by ``id()``) meets NOTIFY's condition, if that has constants only."""
    precision = spec.source.table.precision if spec.source else "ms"
    factor = times = (1, 1)
    messages: list[Message] = []
    written = Written()
    if output is not None:
        factor = scale(precision, output.table.precision)
        times = scale(plan.precision, output.table.precision) if plan is not None else times
    stores = output is not None and writes(spec)
    if output is not None and stores:
        messages, written = _write(spec, plan, output, events, outcomes, factor)
    told = notices(
        spec, plan.result if plan else (), [(event, outcomes.get(id(event))) for event in events],
        lambda group: output.home(group).name if output is not None and stores else None, factor, times,
        None if met is None else [met[id(event)] for event in events],
    )  # fmt: skip
    return Delivery(messages, told, written.rows, written.null_keys, written.times)


def _write(
    spec: StreamSpec, plan: Plan | None, output: OutputTable, events: Sequence[TriggerEvent],
    outcomes: Outcomes,
    factor: tuple[int, int],
) -> tuple[list[Message], Written]:  # fmt: skip
    """The messages with a stage's rows, preceded by the deletes of rows that are no longer valid. ``factor``:
    what converts the times of events."""
    taken_back = settled(spec, events, outcomes) if retracts(spec) else None
    if taken_back is None:
        found: Found = [(event, outcomes[id(event)]) for event in events if id(event) in outcomes]
    else:
        found = taken_back.standing
    written = Written()
    if plan is not None:
        written = write_results(
            spec, output.table, plan.result, plan.precision, found, output.home, output.known,
            with_times=taken_back is not None,
        )  # fmt: skip
    if taken_back is None:
        return written.messages, written
    obsolete: dict[str, Ranges] = {}
    for gid, gone in taken_back.obsolete.items():
        ranges = obsolete.setdefault(output.home(taken_back.groups[gid]).name, Ranges())
        for first, last in gone:
            ranges.add(_scaled(first, factor), _scaled(last, factor))
    return deletions(output.table, obsolete, written.times, output.stored) + written.messages, written


def _scaled(time: int, factor: tuple[int, int]) -> int:
    return max(LOWEST, min(time * factor[0] // factor[1], HIGHEST))


Dropped = Literal["table", "window"]
"""Why an event is not calculated: its table has been dropped since, or its window no longer exists."""
