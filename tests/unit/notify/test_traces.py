"""Spans of notifications: read once, and sent to each subscriber."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from millrace_core.wire import notices
from millrace_core.wire.notices import Notice, NoticeBatch
from millrace_core.wire.topics import NOTIFICATIONS
from millrace_service.spans import spans_of
from millrace_wal import MemoryLog, Message

from .test_subscribe import receive, service, subscribed

HEADER = f"00-{7:032x}-{9:016x}-01"


@pytest.mark.parametrize("on", [True, False])
def test_a_notification_is_read_once_and_sent_to_each_subscriber(
    lab: Any, log: MemoryLog, tmp_path: Path, on: bool
) -> None:
    async def run() -> None:
        async with (
            service(lab, log, trace=1.0 if on else 0.0, data_dir=tmp_path) as url,
            subscribed(url) as first,
            subscribed(url) as second,
        ):
            lab.write(log, range(1), group="1")
            batch = NoticeBatch([Notice("db.s", "2", {"eventType": "WINDOW_CLOSE", "n": 5})], 7)
            log.append([Message(NOTIFICATIONS.name, b"7/2", notices.encode(batch), HEADER)])
            for socket in (first, second):
                assert sorted((await receive(socket, 2))[0]) == [0, 5]

    asyncio.run(run())
    file = tmp_path / "traces" / "notify-svc.jsonl"
    if not on:
        assert not file.exists()
        return
    read, *sent = sorted(spans_of(file.read_bytes()), key=lambda span: span.name)
    assert [read.name, *(span.name for span in sent)] == ["notification.read", *["subscriber.send"] * 2]
    assert (read.trace, read.parent) == (f"{7:032x}", f"{9:016x}")
    assert {span.parent for span in sent} == {read.span}


def test_one_that_is_pushed_is_traced_until_its_address_has_confirmed_it(
    lab: Any, log: MemoryLog, tmp_path: Path
) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        async with (
            lab.serving(receiver.port, receiver.handle),
            service(lab, log, trace=1.0, data_dir=tmp_path),
        ):
            lab.write(log, range(1), receiver.port)
            url = f"ws://127.0.0.1:{receiver.port}/"
            batch = NoticeBatch([Notice("db.s", "2", {"eventType": "WINDOW_CLOSE", "n": 5}, (url,))], 7)
            log.append([Message(NOTIFICATIONS.name, b"7/2", notices.encode(batch), HEADER)])
            await lab.until(lambda: sorted(receiver.numbers) == [0, 5])

    asyncio.run(run())
    spans = {span.name: span for span in spans_of((tmp_path / "traces" / "notify-svc.jsonl").read_bytes())}
    assert spans.keys() == {"notification.read", "address.send"}
    assert spans["notification.read"].parent == f"{9:016x}"
    assert spans["address.send"].parent == spans["notification.read"].span
