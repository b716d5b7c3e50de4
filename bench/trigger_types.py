"""``python -m bench.trigger_types``: rows a second of each trigger type, in the core and through the service.

*core*: messages of 100 rows through one slot, in this process, on one core. *service*: the same messages from
a filled topic through trigger-svc on all cores, from letting it go (it is held while they are written) to the
end of the micro-batch that took the last. calc-svc and notify-svc are stopped meanwhile. Both must tell the
same number of events, else there is no figure.
"""

from __future__ import annotations

import argparse
import re
import time
from typing import Any

from bench import report
from bench.core_triggers import GROUPS, PER_MESSAGE, TABLE, TRIGGERS, Rows, slot_of_stream
from bench.events import read_all
from bench.feed import Feed
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, hold, let_go, say, stage, wait
from bench.stats import rate
from bench.trigger_throughput import CALCULATION
from millrace_core.model.stream import Notify, Source, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.trigger.rows import Messages
from millrace_core.wire import events
from millrace_core.wire.topics import TRIGGERS as TRIGGER_TOPIC
from millrace_core.wire.topics import wal_topic

BATCHES, QUICK_BATCHES = 10, 2
SECONDS = 120.0
URL = "ws://127.0.0.1:9/"  # nobody is told: notify-svc does not run
FIGURES = tuple(
    figure
    for name in TRIGGERS
    for figure in (
        Figure(f"trigger_types.{name}.core", "rows/s"),
        Figure(f"trigger_types.{name}.service", "rows/s", ">=", 100_000),
    )
)
_EVENT = re.compile(r"EVENT_WINDOW\((.*), (.*)\)")


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """For each trigger type rows a second in the core and through the service, and the events told."""
    batches = QUICK_BATCHES if given.quick else BATCHES
    values = [Rows.of(batch, late=False).message() for batch in range(batches)]
    found: dict[str, dict[str, float]] = {}
    with stage("trigger-types") as one:
        one.sql(f"CREATE STABLE {DB}.meters (ts TIMESTAMP, v INT, s INT) TAGS (k INT)")
        one.tables(GROUPS, "meters")
        for name in CALCULATION:
            one.stack.stop(name)
        for number, (name, trigger) in enumerate(TRIGGERS.items()):
            say(name)
            core, wanted = _core(trigger, values)
            service, told = _service(one, number, name, values)
            if told != wanted:
                raise BenchError(f"{name}: the core gives {wanted} events, the service {told}")
            found[name] = {"core": core, "service": service, "events": wanted}
    return {"trigger_types": found}


def _core(trigger: Trigger, values: list[bytes]) -> tuple[float, int]:
    """Rows a second of processor time, and the events told."""
    told_of = Notify((URL,), ("WINDOW_CLOSE",))
    spec = StreamSpec(1, "d", "s", "", trigger, Source(TABLE), ("tbname",), notify=told_of)
    slot, told, seconds = slot_of_stream(spec), 0, 0.0
    topic = wal_topic(TABLE.db, TABLE.name)
    for batch, value in enumerate(values):
        offset = batch * GROUPS
        messages = Messages.of([(topic, 0, offset + i, 0, b"d%d" % i, value) for i in range(GROUPS)])
        began = time.process_time()
        sent = slot.on_batch(messages)
        seconds += time.process_time() - began
        told += sum(len(events.decode(text).events) for to, _, text in sent if to == TRIGGER_TOPIC.name)
    return rate(len(values) * GROUPS * PER_MESSAGE, seconds), told


def _service(one: Stage, number: int, name: str, values: list[bytes]) -> tuple[float, int]:
    """Rows a second of the clock, and the events told."""
    stream = f"{DB}.s{number}"
    when = _EVENT.sub(r"EVENT_WINDOW(START WITH \1 END WITH \2)", name)
    when = when + " SLIDING(1m)" if when == "INTERVAL(1m)" else when
    one.sql(
        f"CREATE STREAM {stream} {when} FROM {DB}.meters PARTITION BY tbname"
        f" NOTIFY('{URL}') ON (WINDOW_CLOSE)"
    )
    trigger_svc = one.process("trigger-svc")
    before = one.log.end_offsets(TRIGGER_TOPIC.name)
    taken = _taken(one)
    hold(trigger_svc)
    Feed(one.broker).fill(wal_topic(DB, "meters"), GROUPS, values)
    began = time.monotonic()
    let_go(trigger_svc)
    wait(lambda: _taken(one) >= taken + len(values) * GROUPS, SECONDS, f"{name}: all read", pause=0.05)
    seconds = time.monotonic() - began
    one.sql(f"DROP STREAM {stream}")
    told = 0
    reader = read_all(one.log, TRIGGER_TOPIC.name)
    while records := reader.poll(1.0):
        fresh = [r for r in records if r.offset >= before.get(r.partition, 0)]
        told += sum(len(events.decode(r.value or b"").events) for r in fresh)
    reader.close()
    return rate(len(values) * GROUPS * PER_MESSAGE, seconds), told


def _taken(one: Stage) -> float:
    """Messages that trigger-svc has taken so far."""
    text = one.stack.ask("trigger-svc", "/metrics").text
    found = re.search(r"^millrace_trigger_messages_total (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


if __name__ == "__main__":
    report.run("trigger_types", __doc__, measure, FIGURES)
