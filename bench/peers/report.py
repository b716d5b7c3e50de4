"""What was found, as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FIGURES: tuple[tuple[str, str, float], ...] = (
    ("rows_per_s", "rows/s", 1),
    ("latency_ms.p50", "p50 ms", 1),
    ("latency_ms.p99", "p99 ms", 1),
    ("cpu_seconds_per_million_rows", "CPU s/M rows", 1),
    ("peak_memory_bytes", "peak MB", 1e-6),
    ("recovery_s", "recovery s", 1),
    ("caught_up_s", "caught up s", 1),
    ("ready_seconds", "ready s", 1),
)
"""Path of a figure, its heading, its factor; in the order of the columns."""


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """A table for each measure: a line for each point and peer. A run that does not count says why."""
    parts = []
    for measure in dict.fromkeys(entry["measure"] for entry in entries):
        own = [entry for entry in entries if entry["measure"] == measure]
        shown = [figure for figure in FIGURES if any(_at(entry, figure[0]) is not None for entry in own)]
        lines = [("job", "point", "peer", *(heading for _, heading, _ in shown), "")]
        lines += [_line(entry, shown) for entry in own]
        parts.append(f"{measure}\n{_aligned(lines)}")
    return "\n\n".join(parts)


def _line(entry: Mapping[str, Any], shown: Sequence[tuple[str, str, float]]) -> tuple[str, ...]:
    point = " ".join(f"{name}={value:,}" for name, value in entry["of"].items())
    cells = [_cell(_at(entry, path), factor) for path, _, factor in shown]
    error = f"DOES NOT COUNT: {entry['error'].splitlines()[0][:100]}" if "error" in entry else ""
    return (entry["job"], point, entry["peer"], *cells, error)


def _at(entry: Mapping[str, Any], path: str) -> float | None:
    found: Any = entry.get("figures", {})
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


def _cell(value: float | None, factor: float) -> str:
    if value is None:
        return ""
    scaled = value * factor
    return f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in lines
    )
