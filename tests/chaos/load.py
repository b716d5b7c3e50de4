"""Writes a seed's steps at their times: by a Kafka producer and by SQL, until each one is acknowledged."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer
from tests.chaos.workload import Row, Step

from millrace.sql_client import Rest
from millrace_core.errors import MillraceError
from millrace_core.wire.topics import wal_topic

PATIENCE = 180.0
"""Seconds after which a statement or a message that is not acknowledged is given up."""
TRIES = 3
"""Of a statement that is refused in words which do not ask to try again: some are answered in the middle of a
start."""


class Writer(threading.Thread):
    """Base of the writers: steps in order, each at its time or as soon as the one before is done.
    ``acknowledged``: the steps that hold; ``faults``: those that do not, with the reason."""

    def __init__(self, steps: Sequence[Step], began: float) -> None:
        super().__init__(daemon=True)
        self._steps, self._began = steps, began
        self.acknowledged: list[Step] = []
        self.faults: list[str] = []

    def run(self) -> None:
        try:
            for step in self._steps:
                time.sleep(max(0.0, self._began + step.at - time.monotonic()))
                self.write(step)
            self.finish()
        except Exception as error:
            self.faults.append(f"a writer ended: {type(error).__name__}: {error}")

    def write(self, step: Step) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Returns once all is acknowledged."""


class KafkaWriter(Writer):
    """An idempotent producer: each message is in the log once, those of a child in order."""

    def __init__(self, steps: Sequence[Step], began: float, broker: str, db: str) -> None:
        super().__init__(steps, began)
        self._db = db
        self._producer = Producer({
            "bootstrap.servers": broker, "enable.idempotence": True, "linger.ms": 5,
            "message.timeout.ms": int(PATIENCE * 1000), "partitioner": "murmur2_random", "log_level": 0,
        })  # fmt: skip

    def write(self, step: Step) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is None:
                self.acknowledged.append(step)
            else:
                self.faults.append(f"{step.child} at {step.at:g} s: {error}")

        topic = wal_topic(self._db, step.table)
        self._producer.produce(topic, value_of(step), step.child, on_delivery=delivered)
        self._producer.poll(0)

    def finish(self) -> None:
        if left := self._producer.flush(PATIENCE):
            self.faults.append(f"{left} messages were not delivered")


def value_of(step: Step) -> str:
    """The message's value."""
    rows = list(step.rows)
    return json.dumps(rows if step.tags is None else {"tags": step.tags, "rows": rows})


class SqlWriter(Writer):
    """Statements over the gateway, each again and again until it is acknowledged."""

    def __init__(self, steps: Sequence[Step], began: float, url: str, db: str) -> None:
        super().__init__(steps, began)
        self._url, self._db = url, db

    def write(self, step: Step) -> None:
        with Rest(self._url, timeout=30) as rest:
            for statement in statements(step, self._db):
                if problem := insist(lambda text=statement: rest.execute(text)):  # type: ignore[misc]
                    self.faults.append(f"{statement[:120]}: {problem}")
                    return
        self.acknowledged.append(step)


def insist(run: Callable[[], object], patience: float = PATIENCE) -> str:
    """Runs it until it succeeds; what it said in the end if it does not, '' if it did."""
    deadline, refused = time.monotonic() + patience, 0
    while True:
        try:
            run()
            return ""
        except MillraceError as error:
            refused += not error.code.value.retry
            if refused >= TRIES or time.monotonic() > deadline:
                return f"{error.code.name}: {error}"
        time.sleep(0.3)


def statements(step: Step, db: str) -> list[str]:
    """A step in SQL: rows that name the same columns go together."""
    if step.what == "delete":
        return [f"DELETE FROM {db}.{step.child} WHERE ts >= {step.first} AND ts <= {step.last}"]
    if step.what == "recalculate":
        return [f"RECALCULATE STREAM {db}.{step.table} FROM {step.first} TO {step.last}"]
    by_columns: dict[tuple[str, ...], list[Row]] = {}
    for row in step.rows:
        by_columns.setdefault(tuple(row), []).append(row)
    return [
        f"INSERT INTO {db}.{step.child} ({', '.join(columns)}) VALUES "
        + " ".join(f"({', '.join(_text(row[name]) for name in columns)})" for row in rows)
        for columns, rows in by_columns.items()
    ]


def _text(cell: int | None) -> str:
    return "NULL" if cell is None else str(cell)
