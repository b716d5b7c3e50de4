"""The demo's data, its check, and its WebSocket endpoint."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from millrace.demo import check, data, faults, picture, run
from millrace.demo.check import Day
from millrace.demo.faults import Score, Span
from millrace.demo.listen import Event, Listener, events_of

DAY = data.DAY_MS
JANUARY_1 = 1_262_304_000_000  # 2010-01-01 in ms


def test_both_files_are_a_year_of_hours() -> None:
    for city in data.CITIES:
        readings = data.read(data.path(city))
        assert len(readings) == 8_759
        assert readings[0].ts == JANUARY_1
        assert readings[-1].ts == JANUARY_1 + 365 * DAY - 3_600_000
        assert [one.ts for one in readings] == sorted({one.ts for one in readings})


def test_a_message_is_a_day_of_rows_and_nothing_is_lost() -> None:
    readings = data.read(data.path("seattle"))
    values = [json.loads(value) for value in data.messages(readings)]
    assert len(values) == 365
    assert [(row["ts"], row["temp"]) for value in values for row in value] == readings
    assert all(len({row["ts"] // DAY for row in value}) == 1 for value in values)


def test_duckdb_figures_of_the_real_files() -> None:
    closed, still_open = check.daily({city: data.path(city) for city in data.CITIES})
    assert len(closed) == 2 * 364
    assert {key[1] for key in still_open} == {JANUARY_1 + 364 * DAY}
    first = [one.temp for one in data.read(data.path("seattle")) if one.ts < JANUARY_1 + DAY]
    low, mean, high = closed[("seattle", JANUARY_1)]
    assert (low, high) == (min(first), max(first))
    assert mean == pytest.approx(sum(first) / len(first))


def test_the_last_value_of_a_time_that_comes_twice_counts(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text(
        "date,temp\n2010/01/01 00:00,90\n2010/01/01 01:00,10\n2010/01/01 00:00,20\n2010/01/02 00:00,5\n"
    )
    closed, still_open = check.daily({"x": file})
    assert closed == {("x", JANUARY_1): Day(10, 15, 20)}
    assert still_open == {("x", JANUARY_1 + DAY): Day(5, 5, 5)}


def test_every_kind_of_difference_is_named() -> None:
    expected = {("a", 0): Day(1, 2, 3), ("a", DAY): Day(1, 2, 3)}
    assert check.differences(expected, expected.items()) == []
    found = [(("a", 0), Day(1, 2.1, 3)), (("a", 0), Day(1, 2, 3)), (("b", 0), Day(1, 2, 3))]
    lines = check.differences(expected, found)
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == ["Millrace", "appears", "not", "missing"]


def _event(place: str, start: int, swing: float, **more: Any) -> Event:
    result = {"place": place, "swing": swing}
    return {
        "triggerId": f"{place}{start}",
        "eventType": "WINDOW_CLOSE",
        "windowStart": start,
        "result": result,
    } | more


def test_notifications_are_compared_too() -> None:
    expected = {("a", 0): Day(1, 2, 4), ("a", DAY): Day(1, 2, 3)}
    good = [_event("a", 0, 3.0), _event("a", DAY, 2.0)]
    assert run.swing_differences(expected, good) == []
    assert len(run.swing_differences(expected, good[:1])) == 1
    assert len(run.swing_differences(expected, [*good, _event("a", 0, 3.0)])) == 1
    assert len(run.swing_differences(expected, [good[0], _event("a", DAY, 2.5)])) == 1
    assert len(run.swing_differences(expected, [*good, _event("b", 0, 1.0)])) == 1
    assert len(run.swing_differences(expected, [good[0], {**good[1], "result": {"place": "a"}}])) == 1


def test_the_endpoint_takes_pushes_and_drops_repeats() -> None:
    shown: list[tuple[int, Event]] = []
    one, two = _event("a", 0, 1.0), _event("a", DAY, 2.0)

    async def push(url: str) -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
            for events in ([one], [one, two]):
                message = {"messageId": "m", "streams": [{"streamName": "demo.swings", "events": events}]}
                await socket.send_json(message)

    with Listener(lambda number, event: shown.append((number, event))) as listener:
        asyncio.run(push(listener.url))
        assert [event["triggerId"] for event in listener.events()] == ["a0", f"a{DAY}"]
    assert [number for number, _ in shown] == [1, 2]
    assert shown[0][1]["streamName"] == "demo.swings"


def test_events_carry_their_streams_name() -> None:
    message = {"streams": [{"streamName": "s1", "events": [{"a": 1}]}, {"streamName": "s2", "events": []}]}
    assert list(events_of(message)) == [{"streamName": "s1", "a": 1}]


def test_the_faults_are_where_the_labels_say() -> None:
    real = data.read(data.path("san_francisco"))
    changed, labels = faults.readings()
    moved = {one.ts for one, other in zip(changed, real, strict=False) if one.temp != other.temp}
    assert moved == faults.hours(labels)
    assert len(labels) == faults.FORTNIGHTS
    assert len(changed) == faults.FORTNIGHTS * faults.FORTNIGHT + 1  # one more closes the last fortnight


def test_precision_and_recall_count_hours() -> None:
    hour = faults.HOUR_MS
    labels = [Span(0, 2 * hour), Span(10 * hour, 10 * hour)]
    assert faults.score([Span(hour, 2 * hour), Span(5 * hour, 6 * hour)], labels) == Score(4, 0.5, 0.5)
    assert faults.score(labels, labels) == Score(4, 1.0, 1.0)
    assert faults.score([], labels) == Score(0, 1.0, 0.0)


def test_the_picture_is_one(tmp_path: Path) -> None:
    changed, labels = faults.readings()
    week = changed[:168]
    file = tmp_path / "deep" / "one.png"
    picture.write_png(file, week, labels[:1], labels[:1])
    assert file.read_bytes().startswith(b"\x89PNG")
    drawn = picture.for_terminal(week, labels[:1], 80)
    assert "day" in drawn
    assert "x" in drawn
