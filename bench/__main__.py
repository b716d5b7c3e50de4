"""``python -m bench [measure…]``: all measures (then the results file is written), or the named ones."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import (
    calc_throughput,
    goals,
    idle,
    memory,
    result_latency,
    start,
    trigger_latency,
    trigger_throughput,
)
from bench.about import about
from bench.size import FULL, QUICK, Size
from bench.stage import BenchError, say
from millrace_core.errors import MillraceError

MEASURES: dict[str, Callable[[Size], dict[str, Any]]] = {
    "start": start.measure,
    "idle": idle.measure,
    "trigger_latency": trigger_latency.measure,
    "result_latency": result_latency.measure,
    "trigger_throughput": trigger_throughput.measure,
    "calc_throughput": calc_throughput.measure,
    "memory": memory.measure,
}
RESULTS = Path(__file__).parent / "results" / "latest.json"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="bench", description=__doc__)
    root.add_argument(
        "measures", nargs="*", choices=[[], *MEASURES], metavar="measure", help=", ".join(MEASURES)
    )
    root.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: only shows whether the bench works, the figures mean nothing",
    )
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 if a measure is not valid. A missed goal is shown, and is not a failure."""
    given = parser().parse_args(arguments)
    size = QUICK if given.quick else FULL
    results: dict[str, Any] = {}
    failed = []
    for name in given.measures or MEASURES:
        say(f"-- {name}")
        try:
            results |= MEASURES[name](size)
        except (BenchError, MillraceError) as error:
            failed.append(name)
            print(f"error: {name}: {error}", file=sys.stderr, flush=True)
    print(goals.text(results))
    if failed:
        return 1
    if not given.measures and not given.quick:
        write(results | about())
    return 0


def write(results: dict[str, Any]) -> None:
    """Writes the results file. :raises ValueError: unless it has exactly the keys that it must have."""
    if set(results) != set(goals.KEYS):
        raise ValueError(
            "the results do not have the expected keys; the difference is "
            f"{sorted(set(results) ^ set(goals.KEYS))}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({key: results[key] for key in goals.KEYS}, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    sys.exit(main())
