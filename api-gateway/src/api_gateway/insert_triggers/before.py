"""BEFORE INSERT: what is about to be written is shown to triggers, which may refuse it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.insert_triggers.instance import Outcome
from api_gateway.insert_triggers.live import Live
from api_gateway.insert_triggers.outputs import store
from millrace_core.dialect.iotdb.triggers.life import Failure, refused
from millrace_core.dialect.iotdb.triggers.tablets import Batch, Watched, batch_of
from millrace_core.errors import MillraceError
from millrace_core.model.schema import Table
from millrace_core.wire.reading import name_of
from millrace_core.wire.rows.decoded import Decoded
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_wal import Message


def fire_before(
    context: Context, lives: Sequence[Live], written: Sequence[tuple[Table, Message]], firing: Firing,
    kept: Callable[[Live], Message],
) -> list[Message]:  # fmt: skip
    """Fire the triggers one after the other. What they write is stored once all have agreed. ``kept``: makes
    the message that says what a stateful trigger keeps; these messages are returned, to go into the log with
    the rows.

    :raises IotdbError: TRIGGER_FIRE_ERROR at the first failure of a PESSIMISTIC trigger.
    """
    decoded = [_decoded(table, messages) for table, messages in _by_table(written)]
    accepted: list[tuple[Live, list[Outcome]]] = []
    states: list[Message] = []
    try:
        for live in lives:
            outcomes: list[Outcome] = []
            for table, keys, rows in decoded:
                batch = batch_of(rows, _watched(live, table.db, keys))
                if batch is not None:
                    outcomes += _fired(live, batch, firing)
            if outcomes and live.record.stateful:
                states.append(kept(live))
            accepted.append((live, outcomes))
        for live, outcomes in accepted:
            _store(context, live, outcomes, firing)
    except MillraceError:
        # the rows are not written, but stateful triggers have seen them
        if states:
            context.log.append(states)
        raise
    return states


def _by_table(written: Sequence[tuple[Table, Message]]) -> list[tuple[Table, list[Message]]]:
    found: dict[int, tuple[Table, list[Message]]] = {}
    for table, message in written:
        found.setdefault(table.uid, (table, []))[1].append(message)
    return list(found.values())


def _decoded(table: Table, messages: Sequence[Message]) -> tuple[Table, list[str], Decoded]:
    keys = [name_of(message.key or b"") for message in messages]
    return table, keys, RowDecoder(table).decode([message.value or b"" for message in messages])


def _watched(live: Live, db: str, keys: Sequence[str]) -> list[Watched | None]:
    known: dict[str, Watched | None] = {key: live.watched(db, key) for key in dict.fromkeys(keys)}
    return [known[key] for key in keys]


def _fired(live: Live, batch: Batch, firing: Firing) -> list[Outcome]:
    """:raises IotdbError: TRIGGER_FIRE_ERROR if the trigger fails and is PESSIMISTIC."""
    begin = time.monotonic()
    try:
        outcomes = live.instance.fire(batch, batch.parts)
    except MillraceError as error:
        outcomes = [Outcome(error.message)]
    metrics.TRIGGER_FIRINGS.labels(live.record.name).inc(len(outcomes))
    metrics.TRIGGER_SECONDS.labels(live.record.name).observe(time.monotonic() - begin)
    failed = next((one.why for one in outcomes if one.why), "")
    if failed:
        _note(live.failed(failed, [part.device for part in batch.parts]), firing)
    return outcomes


def _store(context: Context, live: Live, outcomes: Sequence[Outcome], firing: Firing) -> None:
    writes = [write for one in outcomes for write in one.writes]
    if not writes:
        return
    inner = Firing(firing.depth + 1, firing.waits)
    try:
        store(context, live.record, writes, inner)
    except MillraceError as error:
        _note(live.failed(f"the rows that it writes were refused: {error.message}", []), firing)
    firing.spots += inner.spots
    firing.notes += inner.notes


def _note(failure: Failure, firing: Firing) -> None:
    if failure.pessimistic:
        raise refused(failure)
    firing.notes.append(str(failure))
