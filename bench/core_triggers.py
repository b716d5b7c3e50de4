"""``python -m bench.core_triggers``: rows a second of each trigger type, in the core alone, on one core.

No Kafka, no Spark. *slot*: messages of 100 rows in JSON through a slot, decoding and events included.
*arrow*: the same with messages of 1,000 rows in Arrow. *windower*: clock and windower alone, over arrays of
rows. With all rows in order, and with one row of each message late (in a window that is open, where the type
has such). Processor time is measured, so other work on the machine hardly shows. Arguments: what the names of
the triggers to measure begin with (none: all).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from bench.stage import BenchError
from bench.stats import rate
from bench.workload import arrow_value
from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Condition, Duration, Source, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import Arrivals, ClockMemory
from millrace_core.trigger.rows import Messages, evaluate
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import Count, Event, Interval, Period, Session, Sliding, State
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL, wal_topic

GROUPS = 1000
PER_MESSAGE = 100
PER_ARROW_MESSAGE = 1000
BATCHES = 5
STEP, RUN, PAUSE = 1000, 10, 60_000
"""Rows are a second apart; after ten of them comes a minute without, and another state."""
TABLE = Table(
    "d", "meters", "super", 7, "ms",
    (Column("ts", TIMESTAMP), Column("v", DataType("INT")), Column("s", DataType("INT"))),
    (Column("k", DataType("INT")),),
)  # fmt: skip


def _is(value: int) -> Condition:
    return Condition(f"v = {value}", ("v",), Call("eq", (Field("v"), Constant(value))))


TRIGGERS: dict[str, Trigger] = {
    "PERIOD(1h)": Period(Duration(1, "h")),
    "SLIDING(1m)": Sliding(Duration(1, "m")),
    "INTERVAL(1m)": Interval(Duration(1, "m"), Duration(1, "m")),
    "INTERVAL(2m) SLIDING(1m)": Interval(Duration(2, "m"), Duration(1, "m")),
    "SESSION(ts, 5s)": Session(Duration(5, "s")),
    "STATE_WINDOW(s)": State("s"),
    "EVENT_WINDOW(v = 0, v = 9)": Event(_is(0), _is(RUN - 1)),
    "COUNT_WINDOW(10)": Count(10, 10),
    "COUNT_WINDOW(20, 10, v)": Count(20, 10, ("v",)),
}


@dataclass(frozen=True)
class Rows:
    """One message of each group: times, values (place in the run of ten), states."""

    ts: list[int]
    v: list[int]
    s: list[int]

    @staticmethod
    def of(batch: int, late: bool, per_message: int = PER_MESSAGE) -> Rows:
        """``late``: the first row is one of the batch before, between two of its rows."""
        number = np.arange(batch * per_message, (batch + 1) * per_message)
        ts = 1_700_000_000_000 + number * STEP + number // RUN * PAUSE
        if late and batch:
            ts[0] -= (RUN // 2 + 1) * STEP + PAUSE - 1
        return Rows(ts.tolist(), (number % RUN).tolist(), (number // RUN % 7).tolist())

    def __len__(self) -> int:
        return len(self.ts)

    def arrow(self) -> bytes:
        """The rows as one WAL message in Arrow."""
        int32 = pa.int32()
        return arrow_value(
            {"ts": pa.array(self.ts), "v": pa.array(self.v, int32), "s": pa.array(self.s, int32)}
        )

    def message(self) -> bytes:
        """The rows as one WAL message."""
        cells = zip(self.ts, self.v, self.s, strict=True)
        return ("[" + ",".join(f'{{"ts":{ts},"v":{v},"s":{s}}}' for ts, v, s in cells) + "]").encode()


def slot_of_stream(spec: StreamSpec) -> Slot:
    """The only slot of a deployment, with this stream live."""
    slot = Slot(0, 1)
    define = control.encode(control.DefineStream(spec, {}, 0))
    slot.on_batch(Messages.of([(CONTROL.name, 0, 0, 0, b"", define)]))
    if spec.uid not in slot.contents.streams:
        raise BenchError(f"the slot does not host the stream: {slot.contents.refused.remarks}")
    return slot


def main() -> None:
    """Measure and print."""
    heads = ("slot", "arrow", "windower", "slot, late", "arrow, late", "wind., late")
    print(f"{'rows/s, one core':28}" + "".join(f"{head:>12}" for head in heads))
    for name, trigger in TRIGGERS.items():
        if len(sys.argv) > 1 and not name.startswith(tuple(sys.argv[1:])):
            continue
        spec = StreamSpec(1, "d", "s", "", trigger, Source(TABLE), ("tbname",))
        found: list[float | None] = []
        for late in (False, True):
            few = [Rows.of(batch, late) for batch in range(BATCHES + 1)]
            many = [Rows.of(batch, late, PER_ARROW_MESSAGE) for batch in range(BATCHES + 1)]
            found.append(_rate(few, _through_slot(spec, [rows.message() for rows in few])))
            found.append(_rate(many, _through_slot(spec, [rows.arrow() for rows in many])))
            by_clock = isinstance(trigger, Period)  # rows make no windows there
            found.append(None if by_clock else _rate(few, _through_windower(spec, few)))
        print(f"{name:28}" + "".join(f"{'-' if rows is None else f'{rows:,.0f}':>12}" for rows in found))


def _rate(batches: list[Rows], runs: Iterator[Callable[[], object]]) -> float:
    """Rows a second of processor time; the first run does not count."""
    next(runs)()
    seconds = 0.0
    for run in runs:
        began = time.process_time()
        run()
        seconds += time.process_time() - began
    return rate(GROUPS * sum(map(len, batches[1:])), seconds)


def _through_slot(spec: StreamSpec, values: list[bytes]) -> Iterator[Callable[[], object]]:
    """Every group gets each value, batch by batch."""
    slot = slot_of_stream(spec)
    topic = wal_topic(TABLE.db, TABLE.name)
    for batch, value in enumerate(values):
        messages = Messages.of(
            [
                (topic, 0, batch * GROUPS + group, batch, f"c{group}".encode(), value)
                for group in range(GROUPS)
            ]
        )
        yield lambda: slot.on_batch(messages)  # noqa: B023 - run before the next one is made


def _through_windower(spec: StreamSpec, batches: list[Rows]) -> Iterator[Callable[[], object]]:
    definition = compiled(essence(spec))
    windower, clock = definition.windower, definition.clock
    clocked, memory = Columns(ClockMemory, windower.columns), Columns(windower.memory)
    clocked.grow(GROUPS)
    memory.grow(GROUPS)
    group = np.repeat(np.arange(GROUPS), PER_MESSAGE)
    for rows in batches:
        one = pl.DataFrame({"ts": rows.ts, "v": rows.v, "s": rows.s}).sort("ts")
        frame = pl.concat([one] * GROUPS)
        cells = {signal.name: values for signal, values in evaluate(windower.signals, frame).items()}
        arrived = Arrivals(group, frame["ts"].to_numpy(), cells)
        yield lambda: windower.on_rows(memory, clock.judge(clocked, arrived))  # noqa: B023 - as above


if __name__ == "__main__":
    main()
