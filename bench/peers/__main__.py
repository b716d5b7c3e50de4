"""``python -m bench.peers``: Millrace and other stream engines, side by side on this machine in one run."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.about import about
from bench.peers import measures, report
from bench.peers.flink import Flink
from bench.peers.jobs import JOBS
from bench.peers.millrace import Millrace, Triggers
from bench.peers.peer import Peer
from bench.peers.quix import Quix
from bench.peers.spark import Spark
from bench.stage import BenchError, say
from millrace_core.errors import MillraceError

PEERS: dict[str, type[Any]] = {one.name: one for one in (Millrace, Triggers, Spark, Flink, Quix)}
RESULTS = Path(__file__).parents[1] / "results" / "peers.json"


def _numbers(text: str) -> tuple[int, ...]:
    found = tuple(int(part) for part in text.split(","))
    if not all(one > 0 for one in found):
        raise argparse.ArgumentTypeError(f"'{text}' must be positive numbers with commas between")
    return found


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        found = text.split(",")
        if strange := [one for one in found if one not in known]:
            raise argparse.ArgumentTypeError(f"'{strange[0]}' is none of {', '.join(known)}")
        return found

    return parse


def parser() -> argparse.ArgumentParser:
    """The command line. Lists have commas between."""
    root = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    names = list(measures.MEASURES)
    root.add_argument(
        "--only",
        type=_names(names),
        default=["throughput", "latency", "recovery"],
        help=f"of {', '.join(names)}",
    )
    root.add_argument("--peers", type=_names(list(PEERS)), default=list(PEERS), help=f"of {', '.join(PEERS)}")
    root.add_argument("--jobs", type=_names(list(JOBS)), help=f"of {', '.join(JOBS)}")
    root.add_argument("--rows", type=int, help="rows of the measured part of a filled topic")
    root.add_argument("--devices", type=_numbers, help="the points of throughput and growth-devices")
    root.add_argument(
        "--per-message", type=_numbers, help="rows a message: points of throughput, growth-message"
    )
    root.add_argument("--rates", type=_numbers, help="rows a second: the points of latency")
    root.add_argument("--streams", type=_numbers, help="the points of growth-streams")
    root.add_argument("--seconds", type=int, help="of a steady load, and of its warm part before")
    root.add_argument("--quick", action="store_true", help="small sizes: whether the bench works, no figures")
    root.add_argument("--out", type=Path, default=RESULTS, help="the results file")
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
        "rates": given.rates,
        "streams": given.streams,
        "seconds": given.seconds,
        "warm_seconds": given.seconds,
    }
    return replace(size, **{name: value for name, value in asked.items() if value is not None})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes and prints; 1 if a run does not count."""
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended on the way out
    size = size_of(given)
    peers: list[Peer] = [PEERS[name]() for name in given.peers]
    versions: dict[str, str] = {}
    for peer in peers:
        versions |= {f"{peer.name}: {name}": text for name, text in peer.prepare().items()}
    told = about()
    told["versions"] |= versions
    told["command"] = shlex.join(["python", "-m", "bench.peers", *(arguments or sys.argv[1:])])
    entries: list[dict[str, Any]] = []
    for measure in given.only:
        for point in measures.points(measure, size, given.jobs):
            for peer in peers:
                entries.append(_entry(measure, point, peer))
                _write(given.out, told | {"runs": entries})  # what a later run breaks is not lost
    print(report.table(entries))
    print(f"written to {given.out}")
    return 1 if any("error" in entry for entry in entries) else 0


def _entry(measure: str, point: measures.Point, peer: Peer) -> dict[str, Any]:
    entry: dict[str, Any] = {"measure": measure, "job": point.job.name, "of": point.of, "peer": peer.name}
    say(f"-- {measure} {point.job.name} {point.of} {peer.name}")
    try:
        return entry | {"figures": point.take(peer)}
    except (BenchError, MillraceError) as error:
        say(f"does not count: {error}")
        return entry | {"error": str(error)}


def _write(place: Path, results: dict[str, Any]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
