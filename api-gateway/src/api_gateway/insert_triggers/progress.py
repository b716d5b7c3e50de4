"""What triggers have kept: the topic ``insert-triggers``, read at the start and written on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from millrace_core.dialect.iotdb.triggers import progress as wire
from millrace_core.errors import WireError
from millrace_core.model.insert_trigger import DoneUpTo, InsertTrigger
from millrace_core.wire.topics import INSERT_TRIGGERS
from millrace_wal import DeadLetters, Log, Message, replay


def load(log: Log, dead: DeadLetters) -> dict[int, wire.TriggerProgress]:
    """The last progress of each trigger, by its uid."""
    found: dict[int, wire.TriggerProgress] = {}
    for record in replay(log, INSERT_TRIGGERS.name):
        try:
            if wire.RECORDS.deletes(record.value):
                with suppress(ValueError):
                    found.pop(int((record.key or b"").rpartition(b"#")[2]), None)
                continue
            told = wire.RECORDS.read(record.key, record.value)
        except WireError as error:
            dead.bury(record, error)
            continue
        if told.uid not in found or told.number > found[told.uid].number:
            found[told.uid] = told
    dead.write()
    return found


def message(progress: wire.TriggerProgress) -> Message:
    return Message(INSERT_TRIGGERS.name, wire.key_of(progress), wire.encode(progress))


def gone(record: InsertTrigger) -> Message:
    """The message that a trigger was dropped: nothing of it is kept."""
    return Message(INSERT_TRIGGERS.name, wire.key(record.name, record.uid), None)


Done = dict[str, tuple[int, dict[int, int]]]
"""Topic -> the uid of its table, and how far each partition is done."""


def done_of(places: tuple[DoneUpTo, ...]) -> Done:
    return {place.topic: (place.table, dict(place.offsets)) for place in places}


def places_of(done: Mapping[str, tuple[int, Mapping[int, int]]]) -> tuple[DoneUpTo, ...]:
    return tuple(DoneUpTo(topic, table, dict(offsets)) for topic, (table, offsets) in sorted(done.items()))
