"""``trigger_rows_per_s`` and ``plain_spark_rows_per_s``: the trigger stage alone, from a filled topic.

Both queries run and are warm from the topic's first part. Then both are held (SIGSTOP) while the rest is
written; one after the other is let go and the time taken until it has consumed all. Messages of many rows in
Arrow are measured in the same way, without the peer, which does not read them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import plain_spark
from bench.events import Triggers, read_all, triggers
from bench.feed import Feed
from bench.plain_spark import Peer
from bench.plain_spark_query import Job
from bench.size import Size
from bench.stage import DB, BenchError, Stage, hold, let_go, say, stage, wait
from bench.stats import rate
from bench.workload import Block, Window, closed, row_text, windows
from millrace_core.wire.topics import wal_topic

WIDTH = 60
CALCULATION = ("calc-svc", "notify-svc")
SINK = "bench-plain"
READY_SECONDS = 180.0
COUNT_SECONDS = 600.0
ARROW_ROWS = 1000
"""Rows of a message in Arrow."""


def measure(size: Size) -> dict[str, Any]:
    """Rows a second by rows a message, of both."""
    ours: dict[str, float] = {}
    plain: dict[str, float] = {}
    for per_message in size.rows:
        ours[str(per_message)], plain[str(per_message)] = _measure(size, per_message)
    ours["arrow"] = _measure_arrow(size)
    return {"trigger_rows_per_s": ours, "plain_spark_rows_per_s": plain}


def _measure(size: Size, per_message: int) -> tuple[float, float]:
    warm_end = size.warm_rows[per_message] // size.tables
    end = warm_end + size.rows[per_message] // size.tables
    warm = Block(size.tables, 0, warm_end, per_message)
    main = Block(size.tables, warm_end, end, per_message)
    with _trigger_stage(f"trigger-throughput-{per_message}", size.tables) as one:
        one.log.ensure_topics([(SINK, 4)])
        with plain_spark.running(_job(one, per_message)) as peer:
            return _race(one, peer, warm, main)


def _measure_arrow(size: Size) -> float:
    """Rows a second of trigger-svc alone."""
    warm_end = size.arrow_warm_rows // size.tables
    end = warm_end + size.arrow_rows // size.tables
    warm = Block(size.tables, 0, warm_end, ARROW_ROWS, arrow=True)
    main = Block(size.tables, warm_end, end, ARROW_ROWS, arrow=True)
    with _trigger_stage("trigger-throughput-arrow", size.tables) as one:
        topic, feed, found = wal_topic(DB, "filled"), Feed(one.broker), triggers(one.log)
        _warm_up(one, feed, found, warm)
        hold(one.process("trigger-svc"))
        seconds = feed.fill(topic, main.tables, main.values())
        say(f"{main.rows} rows in {main.messages} messages written in {seconds:.1f} s")
        ours = _time_ours(one, found, main)
        _close_all(one, None, found, main, 0)
        _check_ours(found, main)
        return rate(main.rows, ours)


@contextmanager
def _trigger_stage(name: str, tables: int) -> Iterator[Stage]:
    """Broker, gateway and trigger-svc, with a stream that counts the rows of each minute of each table."""
    with stage(name, _statements()) as one:
        one.tables(tables, "filled")
        one.sql(
            f"CREATE STREAM {DB}.s_filled INTERVAL({WIDTH}s) SLIDING({WIDTH}s) FROM {DB}.filled"
            f" PARTITION BY tbname INTO {DB}.filled_out"
            " AS SELECT _twstart AS ts, count(*) AS n FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
        )
        one.running("s_filled")
        for name in CALCULATION:  # the trigger stage alone is measured
            one.stack.stop(name)
        yield one


def _statements() -> list[str]:
    return [f"CREATE STABLE {DB}.filled (ts TIMESTAMP, v INT) TAGS (k INT)"]


def _job(one: Stage, per_message: int) -> Job:
    topic, settings = wal_topic(DB, "filled"), one.stack.settings
    # from behind the messages that made the child tables
    offsets = {str(partition): offset for partition, offset in one.log.end_offsets(topic).items()}
    folder = settings.data_dir / "plain-spark"
    return Job(one.broker, str(settings.jars_dir), str(folder), topic, offsets, SINK, WIDTH, per_message)


def _race(one: Stage, peer: Peer, warm: Block, main: Block) -> tuple[float, float]:
    topic, feed = wal_topic(DB, "filled"), Feed(one.broker)
    found = triggers(one.log)
    _warm_up(one, feed, found, warm)
    peer.reach(warm.messages, READY_SECONDS)
    trigger_svc = one.process("trigger-svc")
    hold(peer.process)
    hold(trigger_svc)
    seconds = feed.fill(topic, main.tables, main.values())
    say(f"{main.rows} rows in {main.messages} messages written in {seconds:.1f} s")
    plain = _time_plain(peer, warm, main)
    hold(peer.process)
    ours = _time_ours(one, found, main)
    _close_all(one, peer, found, main, warm.messages + main.messages)
    _check(one, found, main)
    return rate(main.rows, ours), rate(main.rows, plain)


def _warm_up(one: Stage, feed: Feed, found: Triggers, warm: Block) -> None:
    """Rows that trigger-svc gets at once: as they come they would be small batches, judged in the driver.
    Returns when it has judged them."""
    say(f"warming up with {warm.rows} rows")
    trigger_svc = one.process("trigger-svc")
    hold(trigger_svc)
    feed.fill(wal_topic(DB, "filled"), warm.tables, warm.values())
    let_go(trigger_svc)
    _reach(found, warm.tables * closed(warm.last, WIDTH), READY_SECONDS)


def _time_plain(peer: Peer, warm: Block, main: Block) -> float:
    began = time.time()
    let_go(peer.process)
    peer.reach(warm.messages + main.messages, COUNT_SECONDS)
    seconds = peer.last_ms / 1000 - began
    say(f"plain Spark: {seconds:.2f} s")
    return seconds


def _time_ours(one: Stage, found: Triggers, main: Block) -> float:
    began = time.time()
    let_go(one.process("trigger-svc"))
    _reach(found, main.tables * closed(main.last, WIDTH), COUNT_SECONDS)
    seconds = found.last_ms / 1000 - began
    say(f"trigger-svc: {seconds:.2f} s")
    return seconds


def _reach(found: Triggers, count: int, seconds: float) -> None:
    def reached() -> bool:
        found.take(0.2)
        return len(found.rows) >= count

    wait(reached, seconds, f"{count} windows closed", pause=0.2)


def _close_all(one: Stage, peer: Peer | None, found: Triggers, main: Block, before: int) -> None:
    """Two far rows for every table, the second once the first are counted: plain Spark tells a window with
    the micro-batch after the one that closes it."""
    topic, feed = wal_topic(DB, "filled"), Feed(one.broker)
    if peer is not None:
        let_go(peer.process)
    for turn in (1, 2):
        text = row_text(main.last + turn * 2 * WIDTH)
        value = (text if main.per_message == 1 else f"[{text}]").encode()
        feed.fill(topic, main.tables, [value])
        if peer is not None:
            peer.reach(before + turn * main.tables, READY_SECONDS)
    _reach(found, main.tables * closed(main.last + 4 * WIDTH, WIDTH), READY_SECONDS)


def _check(one: Stage, found: Triggers, main: Block) -> None:
    """:raises BenchError: unless both counted every window right, once."""
    expected = _check_ours(found, main)
    counted: dict[Window, int] = {}
    reader = read_all(one.log, SINK)
    while records := reader.poll(2.0):
        for record in records:
            told = json.loads(record.value or b"{}")
            window = ((record.key or b"").decode(), int(told["start"]))
            if window in expected and counted.setdefault(window, told["n"]) != told["n"]:
                raise BenchError(f"plain Spark reported window {window} twice")
    reader.close()
    _compare("plain Spark", expected, counted)


def _check_ours(found: Triggers, main: Block) -> dict[Window, int]:
    """Each window's number of rows. :raises BenchError: unless trigger-svc told every window right, once."""
    expected: dict[Window, int] = {
        (f"d{table}", start): count
        for table in range(main.tables)
        for start, count in windows(main.last, WIDTH).items()
    }
    _compare("trigger-svc", expected, {window: found.rows.get(window, -1) for window in expected})
    return expected


def _compare(whose: str, expected: dict[Window, int], counted: dict[Window, int]) -> None:
    if counted != expected:
        wrong = [window for window in expected if counted.get(window) != expected[window]]
        shown = [(window, expected[window], counted.get(window)) for window in wrong[:3]]
        raise BenchError(f"{whose}: {len(wrong)} of {len(expected)} windows are wrong: {shown}")
