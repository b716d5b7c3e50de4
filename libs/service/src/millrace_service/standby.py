"""A service's process that has started all that takes long, and waits until its turn comes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def turn_of(arguments: Sequence[str]) -> Path | None:
    """The FIFO by which this process is told that its turn has come; None: it is its turn from the start.
    ``arguments``: of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--stand-by", type=Path, metavar="FIFO", help="start, and serve once something is written there"
    )
    found: Path | None = parser.parse_args(arguments).stand_by
    return found


def wait_for_turn(turn: Path) -> None:
    """Returns once its turn has come. A signal that ends the process does so meanwhile."""
    while not turn.read_bytes():
        """Somebody has opened it, and written nothing."""
