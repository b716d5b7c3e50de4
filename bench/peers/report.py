"""What was found, as tables for people (Markdown, aligned). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.goals import TRIGGER_STAGE
from bench.peers.results import Run
from bench.stats import at

BASE = "spark"
"""The peer that the others are held against."""
FIGURES: tuple[tuple[str, str, float, bool], ...] = (
    ("rows_per_s", "rows/s", 1, True),
    ("latency_ms.p50", "p50 ms", 1, True),
    ("latency_ms.p99", "p99 ms", 1, True),
    ("cpu_seconds_per_million_rows", "CPU s/M rows", 1, True),
    ("peak_memory_bytes", "peak MB", 1e-6, True),
    ("recovery_s", "recovery s", 1, True),
    ("caught_up_s", "caught up s", 1, True),
    ("cores", "cores", 1, False),
    ("others_cores", "others' cores", 1, False),
)
"""Path of a figure, its heading, its factor, whether it is held against the base's; as columns stand."""
TRIGGER_STAGES = frozenset({"millrace-trigger", "millrace-arrow"})
"""Peers that do less than the others."""
STEADY = ("latency", "recovery")
"""Measures whose rate is given, not found."""


def tables(results: Mapping[str, Any], base: str = BASE) -> str:
    """A table for each measure: a line for each point and peer, with how many times the base's figure of the
    same point and part it is. A run that does not count says why. Then, what the parts were."""
    letters = {part: chr(ord("A") + number % 26) for number, part in enumerate(results["parts"])}
    found = [f"{name}\n\n{_table(name, own, base, letters)}" for name, own in results["measures"].items()]
    parts = [f"{letters[part]}: {_told(about)}" for part, about in results["parts"].items()]
    peers = {run["peer"] for own in results["measures"].values() for run in own}
    stages = (
        [f"{', '.join(sorted(peers & TRIGGER_STAGES))}: {TRIGGER_STAGE}"] if peers & TRIGGER_STAGES else []
    )
    return "\n\n".join([*found, "\n".join([*stages, *parts])])


def _told(about: Mapping[str, Any]) -> str:
    machine = about["machine"]
    return f"{about['date']}, {machine['cores']} cores, {about['commit']}: {about['command']}"


def _table(measure: str, runs: Sequence[Run], base: str, letters: Mapping[str, str]) -> str:
    shown = [
        figure
        for figure in FIGURES
        if any(_figure(run, figure[0]) is not None for run in runs)
        and not (measure in STEADY and figure[0] == "rows_per_s")
    ]
    lines = [("job", "point", "peer", *(figure[1] for figure in shown), "part", "")]
    lines += [_line(run, _other(runs, run, base), shown, letters[run["part"]]) for run in runs]
    return _aligned(lines)


def _other(runs: Sequence[Run], run: Run, base: str) -> Run | None:
    """The base's run beside this one."""
    same = ("job", "of", "part")
    return next((one for one in runs if one["peer"] == base and all(one[k] == run[k] for k in same)), None)


def _line(
    run: Run, other: Run | None, shown: Sequence[tuple[str, str, float, bool]], part: str
) -> tuple[str, ...]:
    point = " ".join(f"{name}={value:,}" for name, value in run["of"].items())
    cells = []
    for path, _, factor, held in shown:
        value = _figure(run, path)
        against = _figure(other, path) if held and other is not None and other is not run else None
        ratio = f" ({value / against:.2f}x)" if value is not None and against else ""
        cells.append("" if value is None else f"{_number(value * factor)}{ratio}")
    error = f"DOES NOT COUNT: {run['error'].splitlines()[0][:100]}" if "error" in run else ""
    return (run["job"], point, run["peer"], *cells, part, error)


def _figure(run: Run, path: str) -> float | None:
    return at(run.get("figures", {}), path)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = tuple("-" * width for width in widths)
    told = [lines[0], rule, *lines[1:]]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in told
    )
