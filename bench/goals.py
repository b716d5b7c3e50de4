"""The table of figures and goals: what the results file holds, and what must be reached. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bench.stats import at

ABOUT = ("machine", "versions", "commit", "command", "date")
"""Keys that say where and when the figures were taken."""


TRIGGER_STAGE = "the trigger stage alone: it counts rows; no aggregate is calculated, nothing is stored"
"""What figures of trigger-svc do not say."""


@dataclass(frozen=True)
class Figure:
    """One line of the table: a figure, or the ratio of it to another, with its goal if it has one.
    ``part``: what of the system was measured; the whole of it where it is empty."""

    path: str
    unit: str
    bound: Literal["<=", ">="] | None = None
    goal: float | None = None
    over: str | None = None
    part: str = ""

    @property
    def name(self) -> str:
        return f"{self.path} / {self.over}" if self.over else self.path

    def value(self, results: Mapping[str, Any]) -> float | None:
        """The figure; None where it, or what it is divided by, was not measured."""
        found = at(results, self.path)
        if self.over is None or found is None:
            return found
        base = at(results, self.over)
        return found / base if base else None

    def met(self, results: Mapping[str, Any]) -> bool | None:
        """Whether the goal is reached; None without goal or figure."""
        value = self.value(results)
        if value is None or self.goal is None:
            return None
        return value <= self.goal if self.bound == "<=" else value >= self.goal


FIGURES: tuple[Figure, ...] = (
    Figure("result_latency_ms.p50", "ms", "<=", 60),
    Figure("result_latency_ms.p99", "ms", "<=", 150),
    Figure("result_latency_5000_ms.p50", "ms", "<=", 100),
    Figure("result_latency_5000_ms.p99", "ms", "<=", 300),
    Figure("calc_triggers_per_s", "1/s", ">=", 1500),
    Figure("calc_one_by_one_per_s", "1/s"),
    Figure("calc_triggers_per_s", "x", ">=", 30, "calc_one_by_one_per_s"),
    Figure("rss_bytes", "bytes", "<=", 4_000_000_000),
    Figure("idle_cores", "cores", "<=", 0.06),
    Figure("start_seconds", "s"),
    *(
        replace(figure, part=TRIGGER_STAGE)
        for figure in (
            Figure("trigger_latency_ms.p50", "ms", "<=", 15),
            Figure("trigger_latency_ms.p99", "ms", "<=", 60),
            Figure("trigger_latency_5000_ms.p50", "ms", "<=", 120),
            Figure("trigger_latency_5000_ms.p99", "ms", "<=", 250),
            Figure("trigger_rows_per_s.1", "rows/s"),
            Figure("plain_spark_rows_per_s.1", "rows/s"),
            Figure("trigger_rows_per_s.1", "x", ">=", 0.9, "plain_spark_rows_per_s.1"),
            Figure("trigger_rows_per_s.100", "rows/s"),
            Figure("plain_spark_rows_per_s.100", "rows/s"),
            Figure("trigger_rows_per_s.100", "x", ">=", 0.9, "plain_spark_rows_per_s.100"),
            Figure("trigger_rows_per_s.arrow", "rows/s", ">=", 2_000_000),
        )
    ),
)

KEYS: tuple[str, ...] = (*dict.fromkeys(figure.path.split(".")[0] for figure in FIGURES), *ABOUT)
"""Exactly the keys of the results file."""


def table(results: Mapping[str, Any], figures: Sequence[Figure] = FIGURES) -> list[tuple[str, str, str, str]]:
    """(figure, value with unit, goal, verdict) of all figures that were measured."""
    rows = []
    for figure in figures:
        value = figure.value(results)
        if value is None:
            continue
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        goal = "" if figure.goal is None else f"{figure.bound} {figure.goal:,g}"
        met = figure.met(results)
        verdict = "" if met is None else "met" if met else "MISSED"
        rows.append((figure.name, f"{shown} {figure.unit}", goal, verdict))
    return rows


def text(results: Mapping[str, Any], figures: Sequence[Figure] = FIGURES) -> str:
    """The table for people: the whole system first, then what is a part of it, under a line that says so."""
    parts = list(dict.fromkeys(figure.part for figure in figures))
    tables = {part: table(results, [figure for figure in figures if figure.part == part]) for part in parts}
    head = ("figure", "value", "goal", "")
    widths = [max(len(row[column]) for row in [head, *table(results, figures)]) for column in range(4)]
    rule = tuple("-" * width for width in widths)
    lines = [_line(row, widths) for row in (head, rule)]
    for part, rows in tables.items():
        lines += [f"{part}:"] if part and rows else []
        lines += [_line(row, widths) for row in rows]
    return "\n".join(lines)


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
