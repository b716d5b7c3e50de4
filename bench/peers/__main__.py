"""``python -m bench.peers``: Millrace and other stream engines, one after the other on this machine.

What is found is added to the results file, so a full run can be had in pieces.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.about import about
from bench.peers import measures, report, results
from bench.peers.flink import Flink
from bench.peers.jobs import JOBS
from bench.peers.millrace import ArrowTriggers, Millrace, Triggers
from bench.peers.peer import Peer
from bench.peers.quix import Quix
from bench.peers.spark import Spark
from bench.stage import BenchError, say
from millrace_core.errors import MillraceError

PEERS: dict[str, type[Any]] = {
    one.name: one for one in (Millrace, Spark, Flink, Quix, Triggers, ArrowTriggers)
}
USUAL = [name for name in PEERS if name != ArrowTriggers.name]
"""Those that take the same messages."""
RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
QUICK_RESULTS = RESULTS.with_name("peers-quick.json")


def _numbers(text: str) -> tuple[int, ...]:
    found = tuple(int(part) for part in text.split(","))
    if not all(one > 0 for one in found):
        raise argparse.ArgumentTypeError(f"'{text}' must be positive numbers, separated by commas")
    return found


def _turns(text: str) -> int:
    (found,) = _numbers(text)
    return found


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        found = text.split(",")
        if strange := [one for one in found if one not in known]:
            raise argparse.ArgumentTypeError(f"must be some of {', '.join(known)}, not '{strange[0]}'")
        return found

    return parse


def parser() -> argparse.ArgumentParser:
    """The command line. Lists have commas between."""
    root = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    names = list(measures.MEASURES)
    root.add_argument("--only", type=_names(names), default=names, help=f"some of {', '.join(names)}")
    root.add_argument("--peers", type=_names(list(PEERS)), default=USUAL, help=f"some of {', '.join(PEERS)}")
    root.add_argument("--jobs", type=_names(list(JOBS)), help=f"some of {', '.join(JOBS)}")
    root.add_argument("--rows", type=int, help="how many rows of a filled topic are measured")
    root.add_argument("--devices", type=_numbers, help="the points of throughput and growth-devices")
    root.add_argument(
        "--per-message",
        type=_numbers,
        help="rows per message: the points of throughput, growth-message and growth-window",
    )
    root.add_argument("--rates", type=_numbers, help="rows per second: the points of latency")
    root.add_argument("--streams", type=_numbers, help="the points of growth-streams")
    root.add_argument("--widths", type=_numbers, help="seconds of a window: the points of growth-window")
    root.add_argument(
        "--turns",
        type=_turns,
        default=1,
        help="take each point so many times of each peer, in turn, and keep the middle of each figure: the "
        "speed of a machine drifts",
    )
    root.add_argument("--seconds", type=int, help="how long a steady load lasts, and the warm-up before it")
    root.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: only shows whether the bench works, the figures mean nothing",
    )
    root.add_argument("--out", type=Path, help="the results file")
    root.add_argument(
        "--missing", action="store_true", help="only points that have no figure in the results file yet"
    )
    root.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no further point after this many minutes"
    )
    root.add_argument("--show", action="store_true", help="measure nothing, only show the results file")
    root.add_argument(
        "--base", choices=list(PEERS), default=report.BASE, help="the peer that the others are compared with"
    )
    return root


def size_of(given: argparse.Namespace) -> measures.Size:
    """The size that the command line asks for."""
    size = measures.QUICK if given.quick else measures.Size()
    asked = {
        "rows": given.rows,
        "grown": given.rows,
        "devices": given.devices,
        "many_devices": given.devices,
        "per_message": given.per_message,
        "message_rows": given.per_message,
        "window_messages": given.per_message,
        "rates": given.rates,
        "streams": given.streams,
        "widths": given.widths,
        "seconds": given.seconds,
        "warm_seconds": given.seconds,
    }
    return replace(size, **{name: value for name, value in asked.items() if value is not None})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes and prints; 1 if a run does not count."""
    given = parser().parse_args(arguments)
    place = given.out or (QUICK_RESULTS if given.quick else RESULTS)
    failed = 0
    if not given.show:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended on the way out
        failed = measure(given, place, arguments or sys.argv[1:])
    print(report.tables(results.read(place), given.base))
    print(f"in {place}")
    return 1 if failed else 0


def measure(given: argparse.Namespace, place: Path, arguments: Sequence[str]) -> int:
    """Takes the wanted points of all wanted peers, and adds each run to the file at once: what a later one
    breaks is not lost. How many do not count."""
    peers: list[Peer] = [PEERS[name]() for name in given.peers]
    told = about()
    for peer in peers:
        told["versions"] |= {f"{peer.name}: {name}": text for name, text in peer.prepare().items()}
    told["command"] = shlex.join(["python", "-m", "bench.peers", *arguments])
    failed = 0
    for name, point in wanted(given, place):
        runs: dict[str, list[results.Run]] = {peer.name: [] for peer in peers}
        for turn in range(given.turns):
            # A B B A: what drifts steadily meets all alike
            for peer in reversed(peers) if turn % 2 else peers:
                runs[peer.name].append(_run(name, point, peer))
                failed += "error" in runs[peer.name][-1]
                _add(place, told, name, results.middle(runs[peer.name]))
    return failed


def _add(place: Path, told: dict[str, Any], measure: str, run: results.Run) -> None:
    """Reads the file again: another command may have added to it meanwhile."""
    order = list(measures.MEASURES)
    results.write(place, results.merged(results.read(place), told["date"], told, measure, run, order))


def wanted(given: argparse.Namespace, place: Path) -> Iterator[tuple[str, measures.Point]]:
    """(measure, point) of all that are to be taken, until time is up. A point is taken of all peers or of
    none, since only figures of one command may be held against each other."""
    began = time.monotonic()
    for name in given.only:
        for point in measures.points(name, size_of(given), given.jobs):
            there = results.taken(results.read(place), name, point.job.name, point.of)
            if given.missing and there.issuperset(given.peers):
                continue
            if time.monotonic() - began > given.minutes * 60:
                say("time is up: use --missing to continue from here")
                return
            yield name, point


def _run(measure: str, point: measures.Point, peer: Peer) -> dict[str, Any]:
    run: dict[str, Any] = {"job": point.job.name, "of": point.of, "peer": peer.name}
    say(f"-- {measure} {point.job.name} {point.of} {peer.name}")
    try:
        return run | {"figures": point.take(peer)}
    except Exception as error:  # whatever a peer breaks, the others are still to be measured
        if not isinstance(error, (BenchError, MillraceError)):
            traceback.print_exc()
        say(f"does not count: {error}")
        return run | {"error": str(error) or type(error).__name__}


if __name__ == "__main__":
    sys.exit(main())
