"""The demo, step by step: tables and streams, rows through Kafka, results, notifications, the check."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from millrace import console
from millrace.demo import anomalies, check, data
from millrace.demo.check import Day, Key
from millrace.demo.listen import Event, Listener
from millrace.demo.steps import progress, wait, write
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.wire.topics import wal_topic

DB = "demo"
SHOWN_EVENTS = 6
SHOWN_DAYS = 3
STREAM_SECONDS = 60.0
RESULT_SECONDS = 180.0

TABLES = (
    f"CREATE DATABASE {DB}",
    f"CREATE STABLE {DB}.temps (ts TIMESTAMP, temp DOUBLE) TAGS (city VARCHAR(32))",
    *(f"CREATE TABLE {DB}.{name} USING {DB}.temps TAGS ('{title}')" for name, title in data.TITLES.items()),
)
DAILY = (
    f"CREATE STREAM {DB}.daily INTERVAL(1d) SLIDING(1d) FROM {DB}.temps PARTITION BY tbname"
    f" INTO {DB}.daily_temps"
    " AS SELECT _twstart AS ts, min(temp) AS low, avg(temp) AS mean, max(temp) AS high"
    " FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
)
SWINGS = (
    f"CREATE STREAM {DB}.swings INTERVAL(1d) SLIDING(1d) FROM {DB}.temps PARTITION BY tbname"
    " NOTIFY('{url}') ON (WINDOW_CLOSE)"
    f" INTO {DB}.daily_swings"
    " AS SELECT _twstart AS ts, %%1 AS place, max(temp) - min(temp) AS swing"
    " FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
)


def run(stack: Stack, keep: bool = False) -> int:
    """Runs the demo on the stack. If no stack runs, it is started, and then stopped again unless ``keep``.
    Returns 0 if every figure equals DuckDB's and the known faults are found, else 1."""
    ours = not stack.is_running()
    try:
        stack.up()
        url, trust = stack.settings.url("api-gateway"), stack.settings.trust
        with Rest(url, trust=trust) as rest, Listener(_show_event) as listener:
            wrong = _run(rest, listener, stack.settings.connection)
            picture = stack.settings.data_dir / "demo" / "anomalies.png"
            return wrong or anomalies.run(rest, stack.settings.connection, picture)
    finally:
        if ours and not keep:
            stack.down()


def _run(rest: Rest, listener: Listener, broker: Mapping[str, str]) -> int:
    say = console.out.print
    closed, still_open = check.daily({city: data.path(city) for city in data.CITIES})
    say("\n[bold]Tables and streams[/bold]")
    prepare(rest, listener.url)
    say("\n[bold]Rows through Kafka, results as they arrive[/bold]")
    per_city = {city: data.read(data.path(city)) for city in data.CITIES}
    rows, began = write(broker, wal_topic(DB, "temps"), per_city), time.monotonic()
    _wait_for_results(rest, listener, len(closed))
    seconds = time.monotonic() - began
    say(f"{rows} rows, {2 * len(closed)} windows calculated {seconds:.1f} s after the last row was written")
    found = read_daily(rest)
    _show_days(found)
    say(f"{len(listener.events())} notifications received")
    wrong = check.differences(closed, found) + swing_differences(closed, listener.events())
    _show_verdict(wrong, len(closed), sorted(still_open))
    return 1 if wrong else 0


def prepare(rest: Rest, notify_url: str) -> None:
    """Drops what an earlier run left, creates tables and streams, and waits until the streams run."""
    if any(row[0] == DB for row in rest.execute("SHOW DATABASES").rows):
        rest.execute(f"DROP DATABASE {DB}")
    for sql in (*TABLES, DAILY, SWINGS.replace("{url}", notify_url)):
        console.out.print(Text(f"  {sql}"), style="dim", soft_wrap=True)
        rest.execute(sql)
    wait(lambda: _states(rest) == {"Running"}, STREAM_SECONDS, lambda: f"the streams are {_states(rest)}")


def read_daily(rest: Rest) -> list[tuple[Key, Day]]:
    """The daily figures that the stream wrote."""
    sql = f"SELECT tag_tbname, ts, low, mean, high FROM {DB}.daily_temps ORDER BY tag_tbname, ts"
    return [((str(city), _millis(ts)), Day(*figures)) for city, ts, *figures in rest.execute(sql).rows]


def swing_differences(expected: dict[Key, Day], events: Sequence[Event]) -> list[str]:
    """What is wrong with the notifications: each closed day must come once, with its swing in the result."""
    lines: list[str] = []
    got: dict[Key, float] = {}
    for event in events:
        result = event.get("result", {})
        key = (str(result.get("place")), int(event["windowStart"]))
        if key in got:
            lines.append(f"notification of {key}: received twice")
        got[key] = float(result.get("swing", math.nan))
    for key in expected.keys() | got.keys():
        want = expected[key].high - expected[key].low if key in expected else None
        have = got.get(key)
        if want is None or have is None or not math.isclose(want, have, abs_tol=1e-9):
            lines.append(f"notification of {key}: the swing is {have}, DuckDB has {want}")
    return lines


# -- waiting and showing ---------------------------------------------------------------------------------


def _states(rest: Rest) -> set[str]:
    """The states of the demo's streams."""
    answer = rest.execute(f"SHOW {DB}.STREAMS")
    column = [name for name, _, _ in answer.columns].index("status")
    return {str(row[column]) for row in answer.rows}


def _count(rest: Rest, table: str) -> int:
    rows = rest.execute(f"SELECT count(*) FROM {DB}.{table}").rows
    return int(rows[0][0]) if rows else 0


def _wait_for_results(rest: Rest, listener: Listener, days: int) -> None:
    """Waits until both streams have given all closed days, and shows progress. More results than expected end
    the wait too: the check will name them."""
    parts: dict[str, Callable[[], int]] = {
        "daily figures": lambda: _count(rest, "daily_temps"),
        "daily swings": lambda: _count(rest, "daily_swings"),
        "notifications": lambda: len(listener.events()),
    }
    with progress() as bar:
        tasks = {name: bar.add_task(name, total=days) for name in parts}

        def done() -> bool:
            counts = {name: count() for name, count in parts.items()}
            for name, count in counts.items():
                bar.update(tasks[name], completed=count)
            return all(count >= days for count in counts.values())

        wait(
            done, RESULT_SECONDS, lambda: f"the results of {days} days are not complete; see `millrace logs`"
        )


def _show_event(number: int, event: Event) -> None:
    if number <= SHOWN_EVENTS:
        day = _date(event["windowStart"])
        result = event.get("result", {})
        values = ", ".join(f"{name} {_short(value)}" for name, value in result.items() if name != "ts")
        line = f"{event['streamName']} {event['eventType']} {day}: {values}"
        console.out.print(Text(f"  notified: {line}"), soft_wrap=True)
    elif number == SHOWN_EVENTS + 1:
        console.out.print("  notified: … and so on")


def _show_days(found: Sequence[tuple[Key, Day]]) -> None:
    rows: list[Sequence[Any]] = []
    for city, title in data.TITLES.items():
        days = [(key[1], day) for key, day in found if key[0] == city]
        gap = [(None, None)] if len(days) > 2 * SHOWN_DAYS else []
        picked = [*days[:SHOWN_DAYS], *gap, *days[SHOWN_DAYS:][-SHOWN_DAYS:]]
        for start, day in picked:
            if start is None or day is None:
                rows.append(("", "…", "", "", ""))
            else:
                rows.append((title, _date(start), f"{day.low:.1f}", f"{day.mean:.2f}", f"{day.high:.1f}"))
    console.out.print(console.table("Daily temperatures (°F)", ("city", "day", "low", "mean", "high"), rows))


def _show_verdict(wrong: Sequence[str], days: int, still_open: Sequence[Key]) -> None:
    last = ", ".join(f"{data.TITLES[city]} {_date(start)}" for city, start in still_open)
    console.out.print(f"Not compared: each city's last day, whose window is still open ({last}).")
    if not wrong:
        console.out.print(
            f"All {days} daily figures and {days} notifications match those of DuckDB.", style="green"
        )
        return
    console.out.print(f"{len(wrong)} differences from DuckDB:", style="red")
    for line in wrong[:20]:
        console.out.print(Text(f"  {line}"), soft_wrap=True)


def _short(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _date(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d")


def _millis(text: Any) -> int:
    """RFC 3339 as the gateway writes timestamps."""
    return round(datetime.fromisoformat(str(text)).timestamp() * 1000)
