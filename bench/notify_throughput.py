"""``notify_events_per_s``: events that notify-svc pushes to one address, batched. ``notify_subscriber_ms``:
from writing an event to its receipt by each of many subscribers.

The events are written to ``notifications`` as calc-svc writes them; calc-svc and trigger-svc are stopped.
``python -m bench.notify_throughput [--quick]`` prints the figures and their goals.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench import report
from bench.goals import Figure
from bench.size import FULL, QUICK, Size
from bench.stage import DB, BenchError, Stage, hold, let_go, say, stage
from bench.stats import rate
from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_wal import Message

STREAM = f"{DB}.told"
AUTH = "Basic " + base64.b64encode(b"root:taosdata").decode()
A_RECORD = 10
AN_APPEND = 2_000
PER_SECOND = 100
SECONDS = 300.0
FIGURES = (
    Figure("notify_events_per_s", "1/s", ">=", 50_000),
    Figure("notify_subscriber_ms.p50", "ms"),
    Figure("notify_subscriber_ms.p99", "ms", "<=", 200),
)


def measure(size: Size) -> dict[str, Any]:
    """Events a second to one address; ``{p50, p99}`` in ms over all subscribers."""
    with stage("notify-throughput") as one:
        # it fires at midnight at the earliest: the events are the bench's own
        one.sql(f"CREATE STREAM {STREAM} PERIOD(1d) NOTIFY('ws://127.0.0.1:9/')")
        for name in ("trigger-svc", "calc-svc"):
            one.stack.stop(name)
        pushed = _pushed(one, size.notified)
        took = _subscribed(one, size.subscribers, size.subscribed_seconds)
    return {"notify_events_per_s": pushed, "notify_subscriber_ms": took}


def _pushed(one: Stage, total: int) -> float:
    with _client("receive", str(total)) as (ready, result):
        urls = (str(ready["url"]),)
        # the connection is there before the clock starts
        notify_svc = one.process("notify-svc")
        hold(notify_svc)
        for begin in range(0, total, AN_APPEND):
            numbers = range(begin, min(begin + AN_APPEND, total))
            parts = (numbers[at : at + A_RECORD] for at in range(0, len(numbers), A_RECORD))
            one.log.append([_record(part, urls) for part in parts])
        began = time.time()
        let_go(notify_svc)
        found = result(SECONDS)
    if found["events"] != total or not found["in_order"] or found["connections"] != 1:
        raise BenchError(f"the address got {found}, not {total} events in order over one connection")
    say(f"{total} events pushed in {found['at'] - began:.2f} s")
    return rate(total, found["at"] - began)


def _subscribed(one: Stage, count: int, seconds: int) -> dict[str, float]:
    total, warm = PER_SECOND * seconds, PER_SECOND * seconds // 3
    url = one.stack.settings.url("notify-svc").replace("http", "ws", 1)
    arguments = (f"{url}/api/v1/streams/{STREAM}/events", AUTH, str(count), str(total), str(warm))
    with _client("subscribe", *arguments) as (_, result):
        say(f"{count} subscribers, {PER_SECOND} events a second for {seconds} s")
        began = time.monotonic()
        for number in range(total):
            time.sleep(max(began + number / PER_SECOND - time.monotonic(), 0))
            one.log.append([_record(range(number, number + 1), ())])
        found = result(SECONDS)
    if found["wrong"]:
        raise BenchError(f"{found['wrong']} events were missed or arrived out of order")
    return {f"p{share}": percentile(found["took"], share / 100) for share in (50, 99)}


def _record(numbers: Sequence[int], urls: tuple[str, ...]) -> Message:
    """One message of calc-svc's, with an event for each number."""
    now = time.time_ns()
    events: list[dict[str, object]] = [
        {
            "tableName": "t_a667a16127d3b5a18988e32f3e76cd30", "eventType": "WINDOW_CLOSE",
            "eventTime": now // 1_000_000, "triggerId": f"{number:016x}", "triggerType": "Interval",
            "groupId": "2650968222368530754", "windowStart": number * 1000, "windowEnd": number * 1000 + 1000,
            "result": {"_wstart": number * 1000, "avg(current)": 1.3}, "n": number, "at": now,
        }
        for number in numbers
    ]  # fmt: skip
    batch = NoticeBatch([Notice(STREAM, "2650968222368530754", event, urls) for event in events])
    return Message(NOTIFICATIONS.name, b"1/2650968222368530754", notices.encode(batch))


def percentile(took: Sequence[Sequence[int]], share: float) -> float:
    """Nearest rank over counts by whole milliseconds, ascending; a sample counts as the end of its
    millisecond."""
    total, passed = sum(count for _, count in took), 0
    for late, count in took:
        passed += count
        if passed >= share * total:
            return float(late + 1)
    raise ValueError("a percentile needs samples")


@contextmanager
def _client(*arguments: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """A process of ``bench.notify_clients``: what it says when ready, and a function for what it says when
    done."""
    command = [sys.executable, "-m", "bench.notify_clients", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:

            def said(seconds: float) -> dict[str, Any]:
                assert process.stdout is not None
                late = threading.Timer(seconds, process.kill)
                late.start()
                line = process.stdout.readline()
                late.cancel()
                if not line:
                    code = process.wait(10)
                    raise BenchError(f"{arguments[0]} exited with {code}, or took longer than {seconds:g} s")
                return dict(json.loads(line))

            yield said(SECONDS), said
        finally:
            process.kill()


if __name__ == "__main__":
    report.run("notify_throughput", __doc__, lambda given: measure(QUICK if given.quick else FULL), FIGURES)
