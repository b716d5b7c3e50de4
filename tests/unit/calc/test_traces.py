"""Spans of trigger events: what one waits for, its job, and what follows of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from calc_svc.jobs.waits import Waits
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.traces import EventTraces
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import TIMESTAMP
from millrace_core.wire import events
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.notices import NoticeText
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS, TRIGGERS, wal_topic
from millrace_service import Tracing, timed
from millrace_service.spans import Span, spans_of
from millrace_service.tracing import spans_file, tracing_to
from millrace_wal import MemoryLog, Message, replay

from .calc_loop import ONE, Jobs, entry

HEADER = f"00-{7:032x}-{9:016x}-01"
OUT = wal_topic("d", "out")


class Working(Jobs):
    """Gives each event a row and a notification."""

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
        with timed("job.sql"):
            product = super().run(uid, batches, waits)
        told = [event for batch in batches for event in batch.events]
        product.messages = [Message(OUT, b"out", b'{"ts":%d}' % event.start) for event in told]
        product.notices = [
            NoticeText("d.s", str(event.group.id), msgspec.Raw(f'{{"n":{event.start}}}')) for event in told
        ]
        return product


class Bench:
    def __init__(self, tracing: Tracing) -> None:
        self.log, view = MemoryLog(), CatalogView()
        out = Table("d", "out", "normal", 1, "ms", (Column("ts", TIMESTAMP),))
        for offset, one in enumerate((Database("d"), out, entry(ONE))):
            view.apply(offset, key_of(one), encode(one))
        self.log.ensure_topics([CATALOG, STATUS, TRIGGERS, NOTIFICATIONS, (OUT, 1)])
        self.jobs = Working(view)
        self.loop = TriggerLoop(self.log, cast(Any, self.jobs), Overtaking(), tracing=tracing)
        self.loop.begin()

    def trigger(self, number: int, group: int, header: str = "", count: int = 1) -> None:
        told = [
            TriggerEvent("x", "ON_TIME", "LIVE", Group(group, (), None), number + one, number, 0, 0)
            for one in range(count)
        ]
        batch = TriggerBatch(ONE, 0, 0, number, {0: number}, told)
        self.log.append([Message(TRIGGERS.name, b"%d/0" % ONE, events.encode(batch), header)])

    def work(self) -> None:
        self.loop.step()
        self.loop.stopping.set()
        self.loop.end()

    def carried(self, topic: str) -> dict[bytes | None, str]:
        """By key the headers of a topic's messages; empty for none."""
        return {
            one.key: self.log.traceparents.get((topic, one.partition, one.offset), "")
            for one in replay(self.log, topic)
        }


def spans_in(file: Path) -> list[Span]:
    return spans_of(file.read_bytes()) if file.exists() else []


def test_an_event_that_is_traced_is_so_up_to_its_notification(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    tracing = tracing_to(spans_file(file, "calc-svc"), 1, "calc-svc")
    one = Bench(tracing)
    one.trigger(1, group=3, header=HEADER)
    one.work()
    tracing.close()
    spans = {span.name: span for span in spans_in(file)}
    parents = {
        name: next((n for n, s in spans.items() if s.span == span.parent), "") for name, span in spans.items()
    }
    assert parents == {
        "event.read": "", "job.wait": "event.read", "rows.wait": "job.wait", "job.run": "event.read",
        "job.sql": "job.run", "result.write": "event.read", "notification.send": "event.read",
    }  # fmt: skip
    assert spans["event.read"].parent == f"{9:016x}"
    assert {span.trace for span in spans.values()} == {f"{7:032x}"}
    order = [spans[name] for name in ("job.run", "result.write", "notification.send")]
    assert all(before.end <= after.begin for before, after in pairwise(order))
    assert one.carried(NOTIFICATIONS.name) == {
        b"%d/3" % ONE: f"00-{7:032x}-{spans['notification.send'].span}-01"
    }
    assert one.carried(OUT) == {b"out": f"00-{7:032x}-{spans['result.write'].span}-01"}


def test_only_notifications_of_traced_groups_carry_a_header(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    tracing = tracing_to(spans_file(file, "calc-svc"), 1, "calc-svc")
    one = Bench(tracing)
    one.trigger(1, group=3, header=HEADER)
    one.trigger(2, group=4)
    one.work()
    tracing.close()
    headers = one.carried(NOTIFICATIONS.name)
    assert {key: bool(header) for key, header in headers.items()} == {b"7/3": True, b"7/4": False}
    assert one.carried(OUT) == {b"out": ""}, "which of its rows are of the traced event nobody says"
    assert len([span for span in spans_in(file) if span.name == "event.read"]) == 1


def test_events_without_a_header_make_nothing(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    tracing = tracing_to(spans_file(file, "calc-svc"), 1, "calc-svc")
    one = Bench(tracing)
    one.trigger(1, group=3)
    one.work()
    tracing.close()
    assert spans_in(file) == []
    assert one.carried(NOTIFICATIONS.name) == {b"7/3": ""}


def test_while_it_is_off_no_header_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("read", "of"):
        monkeypatch.setattr(EventTraces, name, lambda *_: pytest.fail("looked"))
    one = Bench(Tracing())
    one.trigger(1, group=3, header=HEADER)
    one.work()
    assert one.jobs.done == [(ONE, 1)]
    assert one.carried(NOTIFICATIONS.name) == {b"7/3": ""}
