"""The demo's second part: anomaly windows found by streams, compared with known faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from millrace import console
from millrace.demo import faults, picture
from millrace.demo.data import Reading
from millrace.demo.faults import FORTNIGHT, FORTNIGHTS, Score, Span
from millrace.demo.steps import wait, write
from millrace.sql_client import Rest
from millrace_core.wire.topics import wal_topic

DB = "demo"
ALGORITHMS = {
    "shesd": "algo=shesd, period=24, wncheck=0",
    "ksigma": "algo=ksigma, wncheck=0",
    "iqr": "algo=iqr, wncheck=0",
}
"""Stream -> its options. The first one is told that days are the season, and is the one that is drawn."""
DRAWN = 4 * FORTNIGHT
RESULT_SECONDS = 180.0
LEAST_RECALL = 0.5
"""A lower recall means that something is broken: the faults and the data never change."""


def stream(name: str) -> str:
    """Fortnights are counted from 2010-01-01, which is 8 days after a multiple of 14 days since 1970."""
    return (
        f"CREATE STREAM {DB}.{name} INTERVAL(14d, 8d) SLIDING(14d) FROM {DB}.sensor INTO {DB}.found_by_{name}"
        " AS SELECT _wstart AS ts, _wend AS until, count(*) AS n, min(temp) AS low, max(temp) AS high"
        f" FROM {DB}.sensor WHERE ts >= _twstart AND ts < _twend ANOMALY_WINDOW(temp, '{ALGORITHMS[name]}')"
    )


def run(rest: Rest, broker: Mapping[str, str], file: Path) -> int:
    """Creates the streams in the demo's database, writes the readings, shows what was found, and draws it
    into ``file``. Returns 0 if the first stream finds at least half of the faults, else 1."""
    console.out.print("\n[bold]Anomalies: a sensor with known faults, analysed a fortnight at a time[/bold]")
    readings, labels = faults.readings()
    rest.execute(f"CREATE TABLE {DB}.sensor (ts TIMESTAMP, temp DOUBLE)")
    for name in ALGORITHMS:
        console.out.print(Text(f"  {stream(name)}"), style="dim", soft_wrap=True)
        rest.execute(stream(name))
    write(broker, wal_topic(DB, "sensor"), {"sensor": readings})
    wait(lambda: min(_calculated(rest).values()) >= FORTNIGHTS, RESULT_SECONDS, lambda: _state(rest))
    # what is calculated is in the log first, and is stored a moment later
    wait(lambda: _stored(rest) == _written(rest), RESULT_SECONDS, lambda: _lag(rest))
    found = {name: _windows(rest, name) for name in ALGORITHMS}
    first = next(iter(ALGORITHMS))
    scores = _show(found, labels)
    _draw(file, readings[:DRAWN], labels, found[first])
    return 0 if scores[first].recall >= LEAST_RECALL else 1


def _calculated(rest: Rest) -> dict[str, int]:
    """How many fortnights of each stream have been analysed."""
    return _counted(rest, "calculations")


def _written(rest: Rest) -> dict[str, int]:
    """How many windows of each stream have been found."""
    return _counted(rest, "result_rows")


def _counted(rest: Rest, counter: str) -> dict[str, int]:
    sql = f"SELECT stream_name, {counter} FROM information_schema.ins_streams WHERE db_name = '{DB}'"
    found = {str(name): int(count or 0) for name, count in rest.execute(sql).rows}
    return {name: found.get(name, 0) for name in ALGORITHMS}


def _stored(rest: Rest) -> dict[str, int]:
    """How many windows of each stream can be read."""
    return {
        name: int(rest.execute(f"SELECT count(*) FROM {DB}.found_by_{name}").rows[0][0])
        for name in ALGORITHMS
    }


def _lag(rest: Rest) -> str:
    return (
        f"only {_stored(rest)} of the {_written(rest)} windows that were found can be read; see `millrace "
        "logs`"
    )


def _state(rest: Rest) -> str:
    return f"not all {FORTNIGHTS} fortnights were analysed: {_calculated(rest)}; see `millrace logs`"


def _windows(rest: Rest, name: str) -> list[Span]:
    rows = rest.execute(f"SELECT ts, until FROM {DB}.found_by_{name} ORDER BY ts").rows
    return [Span(_millis(first), _millis(last)) for first, last in rows]


def _show(found: Mapping[str, Sequence[Span]], labels: Sequence[Span]) -> dict[str, Score]:
    first = next(iter(found))
    by_fortnight: list[Sequence[Any]] = []
    for span in labels:
        near = [one for one in found[first] if faults.hours([one]) & faults.hours([span])]
        by_fortnight.append((_words(span), ", ".join(map(_words, near)) or "-"))
    console.out.print(console.table("Faults, and what was found there", ("labelled", first), by_fortnight))
    scores = {name: faults.score(spans, labels) for name, spans in found.items()}
    rows = [
        (name, ALGORITHMS[name], len(found[name]), one.found, f"{one.precision:.2f}", f"{one.recall:.2f}")
        for name, one in scores.items()
    ]
    columns = ("stream", "options", "windows", "hours", "precision", "recall")
    console.out.print(console.table("By stream, hour by hour", columns, rows))
    return scores


def _draw(file: Path, readings: Sequence[Reading], labels: Sequence[Span], found: Sequence[Span]) -> None:
    last = readings[-1].ts
    shown = [[span for span in spans if span.first <= last] for spans in (labels, found)]
    picture.write_png(file, readings, *shown)
    width = min(console.out.width, 110)
    console.out.print(Text(picture.for_terminal(readings, shown[1], width)))
    console.out.print(f"saved as a picture: {file}", soft_wrap=True)


def _words(span: Span) -> str:
    first = datetime.fromtimestamp(span.first / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    hours = len(faults.hours([span]))
    return f"{first}, {hours} h"


def _millis(text: Any) -> int:
    """RFC 3339 as the gateway writes timestamps."""
    return round(datetime.fromisoformat(str(text)).timestamp() * 1000)
