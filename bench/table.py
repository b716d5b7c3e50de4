"""``python -m bench.table [results…]``: writes the tables of docs/BENCH.md from ``bench/published``.

Results files of measures of our own (``bench/results/at_once.json``) are published first, with ``--note``.
``peers.json`` is a results file of ``bench.peers`` (``--out bench/published/peers.json`` adds to it); a part
may have a ``note``. ``system.json`` is ``{"parts": [{date, command, commit, note, figures}]}``, with figures
as a measure of our own wrote them; of a figure that several parts have the last counts, and a part of which
no figure is shown any more is left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import goals
from bench.goals import Figure
from bench.peers.results import Run
from bench.stats import at

PUBLISHED = Path(__file__).parent / "published"
DOCUMENT = Path(__file__).parents[1] / "docs" / "BENCH.md"
BEGIN, END = "<!-- begin of what bench.table writes -->\n", "<!-- end of what bench.table writes -->\n"
WHOLE, STAGES = "millrace", ("millrace-trigger", "millrace-arrow")
OTHERS = {"spark": "plain Spark", "flink": "Flink", "quix": "Quix Streams"}
SHOWN: tuple[tuple[str, str, float], ...] = (
    ("rows_per_s", "rows/s", 1),
    ("latency_ms.p50", "ms p50", 1),
    ("latency_ms.p99", "ms p99", 1),
    ("recovery_s", "s to the first result", 1),
    ("caught_up_s", "s to the last", 1),
    ("cpu_seconds_per_million_rows", "CPU s/M rows", 1),
    ("peak_memory_bytes", "MB", 1e-6),
)
"""Path of a figure, its unit, its factor; in the order of a cell."""
OWN: tuple[Figure, ...] = (
    *goals.FIGURES,
    Figure("at_once_result_ms.p50", "ms"),
    Figure("at_once_result_ms.p99", "ms"),
    Figure("window_close_result_ms.p50", "ms"),
    Figure("window_close_result_ms.p99", "ms"),
    Figure("max_delay_off_ms.p50", "ms"),
    Figure("max_delay_off_ms.p99", "ms", "<=", 200),
    Figure("max_delay_off_beside_200_ms.p50", "ms"),
    Figure("max_delay_off_beside_200_ms.p99", "ms", "<=", 200),
    Figure("many_streams_trigger_ms.1000", "ms"),
    Figure("many_streams_trigger_ms.1000", "x", "<=", 1.3, "many_streams_trigger_ms.10"),
    Figure("many_streams_result_ms.1000", "ms"),
    Figure("many_streams_result_ms.1000", "x", "<=", 1.3, "many_streams_result_ms.10"),
    *(
        Figure(f"anomaly_one_job_per_s.{name}", "x", ">=", 30, f"anomaly_one_by_one_per_s.{name}")
        for name in ("iqr", "ksigma", "shesd")
    ),
    # of 50,000, so that what is behind says something
    Figure("iotdb_trigger.offered_points_per_s", "points/s", ">=", 49_000),
    Figure("iotdb_trigger.behind_s", "s", "<=", 1),
    Figure("iotdb_trigger.drained_points_per_s", "points/s", ">=", 50_000),
    # 50,000 points/s on 2 cores
    Figure("iotdb_trigger.cpu_s_per_million_points.total", "s", "<=", 40),
)
"""The figures of our own measures, with their goals."""


def tables(peers: Mapping[str, Any], system: Mapping[str, Any]) -> str:
    """All tables, and what was taken when. Pure."""
    own = [f"S{number}" for number, _ in enumerate(system["parts"], 1)]
    letters = {part: f"P{number}" for number, part in enumerate(peers["parts"], 1)}
    points = list(_points(peers))
    whole = [point for point in points if not _has(point[2], *STAGES)]
    stage = [point for point in points if _has(point[2], *STAGES)]
    return "\n".join(
        [
            "### The whole system: calculated, stored, read\n",
            *_beside(whole, (WHOLE,), letters),
            *_gaps(peers),
            f"\n### Second, {goals.TRIGGER_STAGE}\n",
            *_beside(stage, STAGES, letters),
            "\n### Our own measures\n",
            *_own(system["parts"], own),
            "\n### When the figures were taken\n",
            *_taken(zip(own, system["parts"], strict=True)),
            *_taken((letters[name], part) for name, part in peers["parts"].items()),
            "",
        ]
    )


Point = tuple[str, Mapping[str, int], Sequence[Run]]


def _points(peers: Mapping[str, Any]) -> Iterator[Point]:
    """(measure, what the point is of, its runs) of one part each."""
    for measure, runs in peers["measures"].items():
        for _, same in groupby(runs, key=lambda run: (run["job"], run["of"], run["part"])):
            found = list(same)
            yield (measure, found[0]["of"], found)


def _has(runs: Sequence[Run], *peers: str) -> bool:
    return any(run["peer"] in peers for run in runs)


def _gaps(peers: Mapping[str, Any]) -> list[str]:
    """The jobs of which the whole has no throughput: silence would look like an oversight."""
    runs = peers["measures"].get("throughput", ())
    jobs = dict.fromkeys(
        run["job"] for run in runs if not _has([r for r in runs if r["job"] == run["job"]], WHOLE)
    )
    return (
        [f"\nNot measured of the whole: throughput of {', '.join(f'`{job}`' for job in jobs)}."]
        if jobs
        else []
    )


def _beside(points: Sequence[Point], ours: Sequence[str], letters: Mapping[str, str]) -> list[str]:
    """A line for each point; ours first."""
    kept = [name for name in ours if any(_has(runs, name) for _, _, runs in points)]
    lines = [("measure", "job", "point", *(f"`{name}`" for name in kept), *OTHERS.values(), "taken")]
    for measure, of, runs in points:
        by = {run["peer"]: run for run in runs}
        point = ", ".join(f"{name} {value:,}" for name, value in of.items())
        cells = [_cell(by.get(name)) for name in (*kept, *OTHERS)]
        lines.append((measure, runs[0]["job"], point, *cells, letters[runs[0]["part"]]))
    return _markdown(lines)


def _cell(run: Run | None) -> str:
    figures = {} if run is None else run.get("figures", {})
    found = [(at(figures, path), unit, factor) for path, unit, factor in SHOWN]
    return ", ".join(
        f"{_number(value * factor)} {unit}" for value, unit, factor in found if value is not None
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _own(parts: Sequence[Mapping[str, Any]], letters: Sequence[str]) -> list[str]:
    lines = [("figure", "value", "goal", "", "of", "taken")]
    for figure in sorted(OWN, key=lambda one: bool(one.part)):  # the whole first
        number = _shown_by(parts, figure)
        of = "the trigger stage" if figure.part else "the whole"
        if number is None:
            goal = "" if figure.goal is None else f"{figure.bound} {figure.goal:,g}"
            lines.append((f"`{figure.name}`", "not measured", goal, "", of, ""))
            continue
        ((_, value, goal, verdict),) = goals.table(parts[number]["figures"], [figure])
        lines.append((f"`{figure.name}`", value, goal, verdict, of, letters[number]))
    return _markdown(lines)


def _shown_by(parts: Sequence[Mapping[str, Any]], figure: Figure) -> int | None:
    """Which part's value of a figure is shown: the last that has one."""
    found = [n for n, part in enumerate(parts) if figure.value(part["figures"]) is not None]
    return found[-1] if found else None


def published(system: Mapping[str, Any], results: Mapping[str, Any], note: str = "") -> dict[str, Any]:
    """What is published, with a results file as its last part. Pure.

    :raises ValueError: if it has no figure that the tables show, or its sizes were small.
    """
    figures = {key: value for key, value in results.items() if key not in goals.ABOUT}
    if "--quick" in results["command"] or not any(figure.value(figures) is not None for figure in OWN):
        raise ValueError(f"{results['command']} has no figures to publish")
    about = {key: results[key] for key in ("date", "command", "commit")}
    parts = [*system["parts"], {**about, "note": note, "figures": figures}]
    shown = {_shown_by(parts, figure) for figure in OWN}
    return {"parts": [part for number, part in enumerate(parts) if number in shown]}


def _taken(parts: Any) -> Iterator[str]:
    for letter, part in parts:
        commit = f", commit {part['commit'][:10]}" if part.get("commit") else ""
        note = f": {part['note']}" if part.get("note") else ""
        yield f"- **{letter}** {part['date'][:10]}{commit}, `{part['command']}`{note}."


def _markdown(lines: Sequence[tuple[str, ...]]) -> list[str]:
    rule = ("---",) * len(lines[0])
    return [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]


def rewritten(document: str) -> str:
    """The document with the tables of what is published. :raises ValueError: if it lacks the marks."""
    before, _, rest = document.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the document has no lines {BEGIN.strip()} and {END.strip()}")
    peers, system = (json.loads((PUBLISHED / name).read_text()) for name in ("peers.json", "system.json"))
    return f"{before}{BEGIN}\n{tables(peers, system)}{END}{after}"


def main() -> None:
    """The command line."""
    root = argparse.ArgumentParser(
        prog="bench.table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root.add_argument("results", nargs="*", type=Path, help="results files to publish")
    root.add_argument("--note", default="", help="what readers should know about how they were taken")
    given = root.parse_args()
    file = PUBLISHED / "system.json"
    system = json.loads(file.read_text())
    for results in given.results:
        system = published(system, json.loads(results.read_text()), given.note)
    if given.results:
        file.write_text(json.dumps(system, indent=1) + "\n")
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
