"""A series with its windows, as a PNG and for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import plotille
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from millrace.demo.data import Reading
from millrace.demo.faults import HOUR_MS, Span, hours

SIZE = (12, 4)
AXIS = 18
"""Columns that the axis takes up in the terminal."""


def _time(ts: int) -> float:
    """The instant as a number, as Matplotlib counts."""
    return float(date2num(datetime.fromtimestamp(ts / 1000, UTC)))


def write_png(file: Path, readings: Sequence[Reading], labels: Sequence[Span], found: Sequence[Span]) -> None:
    """Draws the readings as a line, labelled faults as bands behind it, and windows found as points on it."""
    figure = Figure(figsize=SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([_time(one.ts) for one in readings], [one.temp for one in readings], color="0.4", linewidth=0.7)
    for place, (first, last) in enumerate(labels):
        label = "labelled fault" if not place else None
        axes.axvspan(
            _time(first - HOUR_MS), _time(last + HOUR_MS), color="tab:orange", alpha=0.5, label=label
        )
    hit = hours(found)
    points = [one for one in readings if one.ts in hit]
    axes.plot(
        [_time(one.ts) for one in points], [one.temp for one in points], ".", color="tab:red",
        label="window found",
    )  # fmt: skip
    axes.set_ylabel("°F")
    axes.xaxis_date()
    axes.legend(loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def for_terminal(readings: Sequence[Reading], found: Sequence[Span], width: int, height: int = 14) -> str:
    """The same as text without colours: the readings as dots, the windows found as x."""
    figure = plotille.Figure()
    figure.with_colors = False
    figure.width, figure.height = max(width - AXIS, 20), height
    figure.x_label, figure.y_label = "day", "°F"
    figure.x_ticks_fkt = figure.y_ticks_fkt = lambda low, _: f"{low:.0f}"
    hit = hours(found)
    days = [(one.ts - readings[0].ts) / (24 * HOUR_MS) for one in readings]
    figure.set_x_limits(0, max(days[-1], 1))
    figure.plot(days, [one.temp for one in readings])
    points = [(day, one.temp) for day, one in zip(days, readings, strict=True) if one.ts in hit]
    if points:
        figure.scatter([day for day, _ in points], [temp for _, temp in points], marker="x")
    return str(figure.show())
