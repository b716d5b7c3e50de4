"""The way of one row through a real stack: its spans form one tree, from the row to the subscriber."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from millrace.demo.steps import wait
from millrace.settings import StackSettings
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.wire.topics import wal_topic
from millrace_service.spans import Span, spans_of, traces_of
from millrace_wal import KafkaLog, Message

pytestmark = pytest.mark.stack
STREAM = (
    "CREATE STREAM tr.s INTERVAL(1s) SLIDING(1s) FROM tr.meters PARTITION BY tbname INTO tr.out AS "
    "SELECT _twstart AS ts, count(*) AS n FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
)
TREE = {
    ("trigger-svc", "row.read", ""),
    ("trigger-svc", "row.evaluate", "row.read"),
    ("trigger-svc", "event.send", "row.evaluate"),
    ("calc-svc", "event.read", "event.send"),
    ("calc-svc", "job.wait", "event.read"),
    ("calc-svc", "rows.wait", "job.wait"),
    ("calc-svc", "job.run", "event.read"),
    ("calc-svc", "job.rows", "job.run"),
    ("calc-svc", "job.sql", "job.run"),
    ("calc-svc", "result.write", "event.read"),
    ("calc-svc", "notification.send", "event.read"),
    ("notify-svc", "notification.read", "notification.send"),
    ("notify-svc", "subscriber.send", "notification.read"),
}
"""Service and name of each span, and what it lies below."""


@pytest.fixture(scope="module")
def traced(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that traces every row."""
    one = Stack(StackSettings.on_free_ports(tmp_path_factory.mktemp("traced"), jars))
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MILLRACE_TRACE", "1")
            one.up()
        yield one
    finally:
        one.down()


def spans(stack: Stack) -> list[Span]:
    files = sorted((stack.settings.data_dir / "traces").glob("*.jsonl"))
    return [span for file in files for span in spans_of(file.read_bytes())]


def way(stack: Stack) -> list[Span]:
    """The spans, so far, of the trace that ends at a subscriber."""
    found = [trace for trace in traces_of(spans(stack)).values() if trace[-1].name == "subscriber.send"]
    return found[0] if found else []


async def subscribed(stack: Stack, write: KafkaLog) -> dict[str, object]:
    """The first event that a subscriber gets, of rows that are written once it listens."""
    url = stack.settings.url("notify-svc").replace("http", "ws", 1)
    headers = {"Authorization": aiohttp.encode_basic_auth("root", "taosdata")}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(f"{url}/api/v1/streams/tr.s/events?event=window_close") as socket,
    ):
        for ts in (1_000, 2_500):
            row = Message(wal_topic("tr", "meters"), b"m1", b'{"ts":%d,"v":1}' % ts)
            await asyncio.to_thread(write.append, [row])
        message = await socket.receive_json(timeout=60)
        found: dict[str, object] = message["streams"][0]["events"][0]
        return found


def test_the_spans_of_one_row_form_one_tree_from_the_row_to_the_subscriber(traced: Stack) -> None:
    with (
        Rest(traced.settings.url("api-gateway")) as rest,
        KafkaLog(traced.settings.broker, "test", traced.settings.kafka.librdkafka) as log,
    ):
        rest.execute("CREATE DATABASE tr")
        rest.execute("CREATE STABLE tr.meters (ts TIMESTAMP, v INT) TAGS (k INT)")
        rest.execute("CREATE TABLE tr.m1 USING tr.meters TAGS (1)")
        rest.execute(STREAM)
        event = asyncio.run(subscribed(traced, log))
    assert event["windowStart"] == 1_000
    wait(lambda: len(way(traced)) == len(TREE), 30, lambda: f"there is {way(traced)}")
    tree = way(traced)
    known = {one.span: one for one in tree}
    assert len(known) == len(tree)
    names = {(one.service, one.name, known[one.parent].name if one.parent else "") for one in tree}
    assert names == TREE
    (first,) = [one for one in tree if not one.parent]
    assert first.attributes["topic"] == wal_topic("tr", "meters")
    assert all(one.begin <= one.end for one in tree)
    assert min(one.begin for one in tree) == first.begin
