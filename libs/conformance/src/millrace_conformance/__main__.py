"""``python -m millrace_conformance CASES…``: 0 if all cases pass, 1 if one fails, 2 if one is not a case."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import conformance_triggers
from millrace.settings import StackSettings, project_root
from millrace.stack import Stack
from millrace_conformance import load, report, run
from millrace_conformance.case import Case
from millrace_conformance.load import Dispute
from millrace_conformance.producer import ToProduce, produce
from millrace_conformance.report import Outcome
from millrace_conformance.source import BadCase, BadCases
from millrace_core.errors import MillraceError

DISPUTES = Path("tests/conformance/disputed.yaml")


class OnThisMachine:
    """The stack that ``millrace up`` starts: its services can be killed."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    async def restart(self, service: str) -> None:
        """kill -9 and a start. :raises RuntimeError: if it did not run before, or does not become
        ready again."""
        await asyncio.to_thread(self._restart, service)

    def _restart(self, service: str) -> None:
        try:
            if not self._stack.kill(service):
                raise RuntimeError(f"{service} is not running in {self._stack.settings.data_dir}")
            self._stack.start(service)
        except MillraceError as error:
            raise RuntimeError(str(error)) from error

    async def produce(self, what: ToProduce) -> None:
        """Writes to the stack's broker."""
        await asyncio.to_thread(produce, self._stack.settings.connection, what)


def install_triggers(data_dir: Path) -> None:
    """Copies the trigger classes that cases name to where the stack's gateway finds them, even while
    it runs."""
    folder = Path(os.environ.get("MILLRACE_TRIGGER_DIR") or data_dir / "triggers")
    source = Path(conformance_triggers.__file__).parent
    shutil.copytree(
        source, folder / source.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )


@contextmanager
def running_stack() -> Iterator[Stack]:
    """The running stack. If none runs, one is started, and stopped at the end."""
    stack = Stack(StackSettings.from_environment(), lambda line: print(line, file=sys.stderr, flush=True))
    ours = not stack.is_running()
    try:
        install_triggers(stack.settings.data_dir)
        stack.up()
        yield stack
    finally:
        if ours:
            stack.down()


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="millrace_conformance", description=__doc__)
    root.add_argument(
        "cases", nargs="+", type=Path, metavar="CASES", help="case files, or folders that contain them"
    )
    root.add_argument(
        "--jobs", type=_jobs, default=8, help="how many cases to run at the same time (default: 8)"
    )
    root.add_argument(
        "--disputed",
        type=Path,
        help=f"file with the cases that do not count: id, reason, seed (default: {DISPUTES})",
    )
    return root


def disputes(path: Path | None) -> dict[str, Dispute]:
    """The disputed cases; the default file may be missing."""
    where = path or project_root() / DISPUTES
    if path is None and not where.is_file():
        return {}
    return load.read_disputes(where, where.read_text(encoding="utf-8"))


def show(outcome: Outcome) -> None:
    """Prints a case as it ends."""
    print("\n".join(report.lines(outcome)), flush=True)


def play(cases: Sequence[Case], known: dict[str, Dispute], jobs: int) -> list[Outcome]:
    """Plays the cases on the running stack, or on one started for them."""
    with running_stack() as stack:
        url = stack.settings.url("api-gateway")
        return asyncio.run(run.play_cases(cases, url, OnThisMachine(stack), jobs, known, show))


def main(arguments: Sequence[str] | None = None) -> int:
    """Loads all cases before it plays any."""
    given = parser().parse_args(arguments)
    try:
        known = disputes(given.disputed)
        cases = load.load(load.files(given.cases))
    except (BadCases, BadCase, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        outcomes = play(cases, known, given.jobs)
    except MillraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(report.summary(outcomes)), flush=True)
    return 1 if any(outcome.word == "FAIL" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
