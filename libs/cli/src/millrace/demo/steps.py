"""Steps that both parts of the demo take: writing rows as a Kafka producer, waiting, showing progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, Message, Producer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from millrace import console
from millrace.demo import data
from millrace.demo.data import Reading
from millrace_core.errors import ErrorCode, MillraceError


def write(broker: Mapping[str, str], topic: str, readings: Mapping[str, Sequence[Reading]]) -> int:
    """Writes the readings of each table, one message a day, taking the tables in turn; returns the number of
    rows. Any program with a Kafka client could do this. ``broker``: its address and login, as settings of the
    Kafka client.

    :raises MillraceError: UNAVAILABLE if a message was not taken.
    """
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        # as in Java clients and Millrace: a table's rows stay in one partition, in order, whoever writes them
        {**broker, "acks": "all", "linger.ms": 5, "partitioner": "murmur2_random"}
    )
    days = {table: list(data.messages(rows)) for table, rows in readings.items()}
    with progress() as bar:
        task = bar.add_task("messages written", total=sum(map(len, days.values())))
        for number in range(max(map(len, days.values()))):
            for table, values in days.items():
                if number < len(values):
                    producer.produce(topic, key=table, value=values[number], on_delivery=delivered)
                    producer.poll(0)
                    bar.advance(task)
        left = producer.flush(30)
    if failures or left:
        raise MillraceError(
            ErrorCode.UNAVAILABLE, f"{len(failures) + left} messages were not written: {failures[:1]}"
        )
    return sum(map(len, readings.values()))


def wait(done: Callable[[], bool], seconds: float, state: Callable[[], str]) -> None:
    """Until it is done; :raises MillraceError: TIMEOUT, with ``state`` as its reason."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise MillraceError(ErrorCode.TIMEOUT, f"timed out after {seconds:g} s: {state()}")
        time.sleep(0.2)


def progress() -> Progress:
    return Progress(
        TextColumn("  {task.description:<18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console.out,
    )  # fmt: skip
