"""What a bench that runs by itself prints: the command, the machine, the figures beside their goals, JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import goals
from bench.about import about
from bench.goals import Figure

FOLDER = Path(__file__).parent / "results"


def run(
    name: str, doc: str | None, measure: Callable[[argparse.Namespace], dict[str, Any]],
    figures: Sequence[Figure], **options: dict[str, Any],
) -> None:  # fmt: skip
    """The command line of ``python -m bench.<name>``: measures, prints, and writes ``results/<name>.json``
    if the sizes are the full ones. ``measure`` is given ``quick`` (whether they are to be small) and the
    other ``options``, name -> what ``add_argument`` takes."""
    root = argparse.ArgumentParser(
        prog=f"bench.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: only shows whether the bench works, the figures mean nothing",
    )
    for option, settings in options.items():
        root.add_argument(f"--{option}", **settings)
    given = root.parse_args()
    results = measure(given) | about()
    results["command"] = " ".join([f"python -m bench.{name}", *sys.argv[1:]])
    machine = results["machine"]
    print(results["command"])
    print(f"{machine['processor']}, {machine['cores']} cores, {results['date']}, {results['commit']}")
    if given.quick:
        print("small sizes: these figures mean nothing")
    print(goals.text(results, figures))
    text = json.dumps(results, indent=2)
    print(text)
    if not given.quick:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(text + "\n")
