"""Spans of rows: which are traced, and which event carries whose trace on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace_core.wire import events
from millrace_core.wire.topics import REGROUP, TRIGGERS, stream_in
from millrace_service import Tracing
from millrace_service.spans import Span, spans_of, traces_of
from millrace_service.tracing import spans_file, tracing_to
from millrace_wal import Message, replay
from trigger_svc.ahead import Ahead
from trigger_svc.positions import behind
from trigger_svc.traces import RowTraces, TracedRow, causes

from .deployment import METERS, SLOTS, Deployment

HEADER = f"00-{7:032x}-{9:016x}-01"
Spans = Callable[[], list[Span]]


@pytest.fixture
def tracing(tmp_path: Path) -> tuple[Tracing, Spans]:
    """What traces only messages with a header; and the spans, which ends it."""
    file = tmp_path / "spans.jsonl"
    one = tracing_to(spans_file(file, "trigger-svc"), 1e-12, "trigger-svc")

    def spans() -> list[Span]:
        one.close()
        return spans_of(file.read_bytes()) if file.exists() else []

    return one, spans


def deployed(folder: Path, kit: Any, tracing: Tracing, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setattr("trigger_svc.ahead.WAIT", 0.0)
    found = Deployment(folder, kit)
    found.ahead = Ahead(found.flaky, found.evaluator, RowTraces(tracing, SLOTS))
    return found


def read_all(one: Deployment) -> None:
    for _ in range(200):
        one.read_ahead()
        if not behind(one.evaluator.positions, one.ends()):
            return
    raise AssertionError("the reader does not come to the end")


def write_traced(one: Deployment, child: str, ts: int, header: str = HEADER) -> None:
    one.now += 1
    one.log.append([Message(METERS, child.encode(), b'{"ts":%d,"v":1}' % ts, header)])


def carried(one: Deployment, topic: str) -> list[str]:
    """The headers of all messages of a topic; empty for none."""
    places = [(record.topic, record.partition, record.offset) for record in replay(one.log, topic)]
    return [one.log.traceparents.get(place, "") for place in places]


def test_the_event_that_a_row_causes_carries_its_trace_on(
    tmp_path: Path, kit: Any, tracing: tuple[Tracing, Spans], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deployed(tmp_path, kit, tracing[0], monkeypatch)
    one.define(1)
    read_all(one)
    one.write("a", 1)
    read_all(one)
    one.write("b", 1)
    write_traced(one, "a", 12)
    one.write("b", 12)
    read_all(one)
    told = [events.decode(record.value or b"") for record in replay(one.log, TRIGGERS.name)]
    headers = carried(one, TRIGGERS.name)
    of_a = [header for batch, header in zip(told, headers, strict=True) if batch.events[0].group.table == "a"]
    assert len(told) == 2
    assert len(of_a) == 1
    assert [header for header in headers if header] == of_a
    spans = tracing[1]()
    assert {span.trace for span in spans} == {f"{7:032x}"}
    ordered = traces_of(spans)[f"{7:032x}"]
    assert [span.name for span in ordered] == ["row.read", "row.evaluate", "event.send"]
    assert [span.parent for span in ordered] == [f"{9:016x}", ordered[0].span, ordered[1].span]
    assert of_a == [f"00-{7:032x}-{ordered[2].span}-01"]
    assert ordered[0].attributes["topic"] == METERS


def test_nothing_is_carried_and_nothing_made_of_rows_that_are_not_sampled(
    tmp_path: Path, kit: Any, tracing: tuple[Tracing, Spans], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deployed(tmp_path, kit, tracing[0], monkeypatch)
    one.define(1)
    for ts in (1, 12, 23):
        one.write("a", ts)
    read_all(one)
    assert len(one.events()) == 2
    assert not any(carried(one, TRIGGERS.name))
    assert tracing[1]() == []


def test_nobody_is_asked_for_headers_while_it_is_off(
    tmp_path: Path, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deployed(tmp_path, kit, Tracing(), monkeypatch)
    monkeypatch.setattr(RowTraces, "of", lambda *_: pytest.fail("asked"))
    one.define(1)
    for ts in (1, 12):
        write_traced(one, "a", ts)
    read_all(one)
    assert len(one.events()) == 1
    assert carried(one, TRIGGERS.name) == [""]


def test_every_row_is_traced_if_all_are_sampled(
    tmp_path: Path, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spans.jsonl"
    tracing = tracing_to(spans_file(file, "trigger-svc"), 1, "trigger-svc")
    one = deployed(tmp_path, kit, tracing, monkeypatch)
    one.define(1)
    for ts in (1, 2, 12):
        one.write("a", ts)
    read_all(one)
    tracing.close()
    names = sorted(
        sorted(span.name for span in spans) for spans in traces_of(spans_of(file.read_bytes())).values()
    )
    assert names == [["event.send", "row.evaluate", "row.read"], *[["row.evaluate", "row.read"]] * 2]


def test_a_row_that_goes_to_another_slot_is_traced_there(
    tmp_path: Path, kit: Any, tracing: tuple[Tracing, Spans], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deployed(tmp_path, kit, tracing[0], monkeypatch)
    one.define(1, partition=())
    read_all(one)
    one.write("a", 1)
    read_all(one)
    write_traced(one, "b", 12)
    read_all(one)
    assert len(one.events()) == 1
    assert [bool(header) for header in carried(one, REGROUP.name)] == [False, True]
    assert [bool(header) for header in carried(one, TRIGGERS.name)] == [True]
    behind_of = {span.parent: span for span in tracing[1]()}  # the log's clock is not that of the process
    at, way = f"{9:016x}", []
    while at in behind_of:
        way.append(behind_of[at].name)
        at = behind_of[at].span
    assert way == ["row.read", "row.evaluate", "event.send"] * 2


def row(offset: int, topic: str = METERS, slot: int = 0, partition: int = 0) -> TracedRow:
    return TracedRow(topic, partition, offset, b"a", slot, "", 0)


def closed(written: dict[int, tuple[int, int]] | None, stream: int = 5, slot: int = 0) -> Any:
    group = events.Group(1, ("a",), "a")
    event = events.TriggerEvent("x", "CLOSE", "LIVE", group, 0, 9, 1, 0, written=written)
    batch = events.TriggerBatch(stream, 0, slot, 1, {0: 9}, [event])
    return TRIGGERS.name, events.key_of(batch), events.encode(batch)


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (closed({0: (0, 4)}), 0),
        (closed({0: (0, 6)}), 1),
        (closed({0: (0, 5)}), None),  # a row between them, which is not traced
        (closed({1: (0, 6)}), None),
        (closed(None), 1),  # it names no cause: the last one
        (closed(None, slot=1), None),
        (closed(None, stream=6), None),
        ((REGROUP.name, b"5/77", b""), 2),
        ((REGROUP.name, b"6/77", b""), None),
        (("recalc", b"5/0", b""), None),
    ],
)
def test_what_is_sent_is_caused_by_the_row_that_it_names(output: Any, cause: int | None) -> None:
    rows = [row(3), row(5), row(6, slot=2)]
    assert causes(rows, [output], lambda one: (5,)) == ({} if cause is None else {0: cause})


@pytest.mark.parametrize(
    ("key", "stream"), [(b"7/-3", 7), (b"7", 7), (b"", -1), (None, -1), (b"x/1", -1), (b"9" * 5_000, -1)]
)
def test_the_stream_in_a_key(key: bytes | None, stream: int) -> None:
    """A key of thousands of digits, which no stream has, is one for which Python refuses to make a number."""
    assert stream_in(key) == stream
