"""A service's process that has already started all that takes long, and waits for its turn."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def turn_of(arguments: Sequence[str]) -> Path | None:
    """The FIFO through which this process is told that its turn has come; None: it is its turn from the
    start. ``arguments``: those of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--stand-by", type=Path, metavar="FIFO", help="start, but serve only once something is written there"
    )
    found: Path | None = parser.parse_args(arguments).stand_by
    return found


def wait_for_turn(turn: Path) -> None:
    """Returns once its turn has come. Signals that end the process still do so while it waits."""
    while not turn.read_bytes():
        """Somebody has opened it, and written nothing."""
