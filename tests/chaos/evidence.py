"""Reads what a stack holds of one seed, by SQL and from Kafka; keeps it where the seed failed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from bench.workload import rows_of
from tests.chaos.changes import Change, changes
from tests.chaos.oracle import Result
from tests.chaos.streams import Stream, reading

from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.errors import MillraceError
from millrace_core.wire import events, operations, recalc
from millrace_core.wire.topics import (
    DEAD_LETTERS,
    HANDOVER,
    NOTIFICATIONS,
    RECALC,
    REGROUP,
    TRIGGERS,
    wal_topic,
)
from millrace_wal import KafkaLog, Record, replay


def changes_of(stack: Stack, db: str, table: str) -> list[Change]:
    """All changes of a table, from its topic."""
    with KafkaLog(stack.settings.broker, "chaos") as log:
        return changes(replay(log, wal_topic(db, table)), table)


def records_of(stack: Stack, topic: str) -> list[Record]:
    with KafkaLog(stack.settings.broker, "chaos") as log:
        return list(replay(log, topic))


Decode = Callable[[bytes], object]
"""What a record's value says, as the wire's format has it."""
SAID: Mapping[str, Decode] = {
    RECALC.name: recalc.decode_request, TRIGGERS.name: events.decode, HANDOVER.name: recalc.decode_handover,
}  # fmt: skip
"""What the parts say to one another of windows: who was asked what, and what was answered."""


def said(stack: Stack, topic: str, decode: Decode) -> Iterator[str]:
    """All that was said in a topic and has not been cleaned away: a line of JSON a record, in order."""
    for record in sorted(records_of(stack, topic), key=attrgetter("timestamp", "partition", "offset")):
        if record.value is None:
            continue
        key = (record.key or b"").decode(errors="replace")
        value = msgspec.to_builtins(decode(record.value), str_keys=True)
        yield json.dumps([record.timestamp, record.partition, record.offset, key, value], default=str)


def _written(value: bytes) -> object:
    """Rows, or an operation."""
    return operations.operation_in(value) or rows_of(value)


def moving(stack: Stack, db: str) -> dict[str, dict[int, int]]:
    """How far the topics have come that say that something is being done for the database."""
    with KafkaLog(stack.settings.broker, "chaos") as log:
        names = [one.name for one in (TRIGGERS, RECALC, HANDOVER, REGROUP, NOTIFICATIONS)]
        return {name: log.end_offsets(name) for name in [*names, *log.topics(f"wal.{db}.")]}


def results_of(rest: Rest, stream: Stream, db: str) -> list[Result]:
    """The output table's rows, as a user reads them."""
    rows = rest.execute(reading(stream, db)).rows
    return [
        Result(str(row[0] or ""), *(None if cell is None else int(cell) for cell in row[1:])) for row in rows
    ]  # type: ignore[arg-type]


def verified(rest: Rest, stream: Stream, db: str) -> list[str]:
    """What VERIFY STREAM says of a stream over all times, in lines."""
    answer = rest.execute(f"VERIFY STREAM {stream.full_name(db)} FROM '2025-12-01' TO '2026-12-01'")
    return [f"VERIFY {stream.name}: {' | '.join(map(str, row))}" for row in answer.rows]


def rows_of_table(rest: Rest, db: str, table: str) -> list[tuple[Any, ...]]:
    """Child, time, op, v, s of all stored rows."""
    rows = rest.execute(f"SELECT tbname, cast(ts AS BIGINT), op, v, s FROM {db}.{table}").rows
    return [(str(row[0]), int(row[1]), *row[2:]) for row in rows]


def dead_letters(stack: Stack, db: str) -> list[str]:
    """Of the topics of this database: none is expected."""
    prefix = f"wal.{db}.".encode()
    return [
        f"dead letter: {record.value!r}"[:400]
        for record in records_of(stack, DEAD_LETTERS.name)
        if prefix in (record.key or b"") + (record.value or b"")
    ]


ASKED = (
    "SHOW {db}.STREAMS",
    "SELECT * FROM information_schema.ins_streams WHERE db_name = '{db}'",
    "SELECT * FROM information_schema.ins_stream_tasks",
    "SELECT * FROM information_schema.ins_stream_counters WHERE value <> 0",
)


def state_of(stack: Stack, rest: Rest, db: str) -> list[str]:
    """What the stack says of itself, in lines."""
    found = [str(row) for row in stack.status()]
    for statement in ASKED:
        sql = statement.format(db=db)
        found += ["", sql]
        try:
            answer = rest.execute(sql)
        except MillraceError as error:
            found.append(f"error: {error}")
            continue
        found.append(" | ".join(name for name, _, _ in answer.columns))
        found += [" | ".join(map(str, row)) for row in answer.rows]
    return found


def keep(
    folder: Path, stack: Stack, report: Iterable[str], logs: Mapping[str, Sequence[Change]],
    outputs: Mapping[str, Sequence[Result]], notices: Sequence[Mapping[str, Any]], db: str,
) -> None:  # fmt: skip
    """Everything that says what happened to a seed: report, the parts' logs, changes, results, notices, what
    the parts said to one another, and what was written into output tables."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "report.txt").write_text("\n".join(report) + "\n")
    shutil.copytree(stack.settings.data_dir / "log", folder / "log")
    for table, found in logs.items():
        lines = (json.dumps(one._asdict()) for one in found)
        (folder / f"{table}.changes.jsonl").write_text("\n".join(lines) + "\n")
    for table, rows in outputs.items():
        (folder / f"{table}.rows.jsonl").write_text("\n".join(json.dumps(one) for one in rows) + "\n")
    (folder / "notices.jsonl").write_text("\n".join(json.dumps(one) for one in notices) + "\n")
    for topic, decode in SAID.items():
        (folder / f"{topic}.jsonl").write_text("\n".join(said(stack, topic, decode)) + "\n")
    for table in outputs:
        written = said(stack, wal_topic(db, table), _written)
        (folder / f"{table}.written.jsonl").write_text("\n".join(written) + "\n")
