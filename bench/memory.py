"""``rss_bytes``: resident memory of the whole stack with many child tables that a stream groups by."""

from __future__ import annotations

import time
from typing import Any

from bench.feed import Feed
from bench.size import Size
from bench.stage import DB, Stage, say, stage, wait
from bench.workload import BASE
from millrace_core.wire.topics import wal_topic

SECONDS = 900.0
WATCHED = 15


def measure(size: Size) -> dict[str, Any]:
    """The most of 15 readings, one a second, while every child table is known and rows go on coming."""
    with stage("memory", [f"CREATE STABLE {DB}.many (ts TIMESTAMP, v INT) TAGS (k INT)"]) as one:
        one.sql(
            f"CREATE STREAM {DB}.s_many INTERVAL(1h) SLIDING(1h) FROM {DB}.many PARTITION BY tbname"
            f" INTO {DB}.many_out"
            " AS SELECT _twstart AS ts, count(*) AS n FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
        )
        one.running("s_many")
        began = time.monotonic()
        _register(one, size.children)
        say(f"{size.children} child tables known after {time.monotonic() - began:.0f} s")
        return {"rss_bytes": _watch(one, size.children)}


def _register(one: Stage, children: int) -> None:
    """Child tables come with their first row, as producers bring them."""
    feed, topic = Feed(one.broker), wal_topic(DB, "many")
    for number in range(children):
        row = b'{"tags":{"k":%d},"rows":[{"ts":%d,"v":1}]}' % (number, BASE)
        feed.write(topic, f"d{number}", row)
    feed.done()
    rows = f"SELECT count(*) FROM {DB}.many"
    wait(lambda: one.scalar(rows) == children, SECONDS, "rows stored", 1)
    known = f"SELECT count(*) FROM information_schema.ins_tables WHERE db_name = '{DB}'"
    wait(lambda: one.scalar(known) >= children, SECONDS, "child tables in the catalog", 1)


def _watch(one: Stage, children: int) -> int:
    feed, topic = Feed(one.broker), wal_topic(DB, "many")
    most = 0
    for second in range(1, WATCHED + 1):
        for number in range(200):
            key = f"d{(second * 200 + number) * 7919 % children}"
            feed.write(topic, key, b'{"ts":%d,"v":1}' % (BASE + second * 1000))
        feed.done()
        time.sleep(1)
        most = max(most, one.memory())
    return most
