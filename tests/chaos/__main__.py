"""``python -m tests.chaos --seeds 1..20 --minutes 2``: seeds one after another on one stack, a table in the
end; 1 if a window is wrong or missing, or anything else went wrong.

A seed has a database of its own, so that one stack serves many; after a seed in which something was missing
a new one is started. Each outcome is appended to a file of JSON lines: a seed that is in it (with as many
minutes, and the same parts spared) is not run again, so a long run may be stopped and goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.stage import environment, let_go
from tests.chaos.disturb import supervised
from tests.chaos.round import Outcome, Round
from tests.chaos.schedule import VICTIMS

from millrace import processes
from millrace.settings import StackSettings, project_root
from millrace.sql_client import Rest
from millrace.stack import NAMES, Stack

COLUMNS: tuple[str, ...] = (
    "seed", "minutes", "kills", "pauses", "rows", "expected", "right", "wrong", "missing", "allowed",
    "faults", "recovery", "seconds",
)  # fmt: skip


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def seeds(text: str) -> list[int]:
    """``1..20``, ``7``, ``1..3,9``. :raises argparse.ArgumentTypeError:"""
    found: list[int] = []
    for part in text.split(","):
        ends = part.split("..")
        if len(ends) > 2 or not all(end.strip().isdecimal() for end in ends):
            raise argparse.ArgumentTypeError(f"'{part}' is not a seed or a range such as 1..20")
        found += range(int(ends[0]), int(ends[-1]) + 1)
    return found


def table(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """The outcomes as lines of columns, with sums where they mean something."""
    rows = [COLUMNS]
    rows += [tuple("-" if one[name] is None else f"{one[name]:g}" for name in COLUMNS) for one in outcomes]
    rows.append(("all", "", *(f"{sum(one[name] for one in outcomes):g}" for name in COLUMNS[2:-2]), "", ""))
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


SPREAD = {"MILLRACE_SLOTS": "4", "MILLRACE_WAL_PARTITIONS": "4"}
"""Unless set otherwise: more parts than by default, which fail and come back at different moments."""


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    """A fresh stack on free ports, supervised; its data goes with it."""
    shutil.rmtree(folder, ignore_errors=True)
    jars = Path(os.environ.get("MILLRACE_JARS_DIR", project_root() / ".jars"))
    stack = Stack(StackSettings.on_free_ports(folder, jars), say)
    try:
        with environment(SPREAD | os.environ):
            stack.up()
            with supervised(stack, say):
                yield stack
    finally:
        for part in NAMES:  # what is held could not end
            if held := processes.running(stack.place, part):
                let_go(held)
        stack.down()
        shutil.rmtree(folder, ignore_errors=True)


def run(given: argparse.Namespace, todo: Sequence[int]) -> Iterator[Outcome]:
    """The seeds' outcomes, as they come."""
    left = list(todo)
    while left:
        with ExitStack() as stack_of_seeds:
            stack = stack_of_seeds.enter_context(running(given.folder / "stack"))
            rest = stack_of_seeds.enter_context(Rest(stack.settings.url("api-gateway"), timeout=20))
            while left:
                seed = left.pop(0)
                say(f"seed {seed}")
                keep = given.folder / f"seed-{seed}"
                one = Round(stack, rest, seed, given.minutes, given.patience, keep, say, given.spare)
                outcome = one.run()
                if not outcome.is_right:
                    say(f"seed {seed} failed: see {keep}/report.txt")
                yield outcome
                if outcome.faults or outcome.missing or (outcome.recovery is None and not stack.is_up()):
                    break


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    root.add_argument("--seeds", type=seeds, default=[1], help="1..20, or 3,7 (1)")
    root.add_argument("--minutes", type=float, default=2.0, help="of load, for each seed (2)")
    root.add_argument("--patience", type=float, default=120.0, help="seconds until all must be right (120)")
    root.add_argument(
        "--spare", action="append", default=[], choices=sorted(VICTIMS), help="hit no such part"
    )
    root.add_argument("--again", action="store_true", help="seeds that have an outcome already, too")
    root.add_argument("--folder", type=Path, default=project_root() / ".millrace" / "chaos")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "results.jsonl"
    about = {"minutes": given.minutes, "spared": sorted(given.spare)}
    known: dict[int, dict[str, Any]] = {}
    if file.exists() and not given.again:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        known = {one["seed"]: one for one in lines if all(one[name] == about[name] for name in about)}
    for outcome in run(given, [seed for seed in given.seeds if seed not in known]):
        known[outcome.seed] = {**outcome.as_json(), **about, "ok": outcome.is_right}
        with file.open("a") as results:
            results.write(json.dumps(known[outcome.seed]) + "\n")
    found = [known[seed] for seed in given.seeds]
    print("\n".join(table(found)), flush=True)
    return 0 if all(one["ok"] for one in found) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the stack is ended on the way out
    sys.exit(main())
