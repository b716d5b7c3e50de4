"""Rows a second from a filled topic, and what they cost."""

from __future__ import annotations

import time
from typing import Any

from bench.peers.peer import Peer
from bench.peers.play import playing
from bench.peers.run import Load
from bench.peers.usage import Watch, rest
from bench.stage import say
from bench.stats import rate


def throughput(peer: Peer, load: Load) -> dict[str, Any]:
    """The peer starts and gives the results of the warm part, which do not count. It is held while the main
    part is written; then it is let go, and the clock runs until the last result that is due has reached the
    broker. Before that it has come to rest."""
    began = time.monotonic()
    with playing(peer, load) as one:
        say(f"{peer.name} started after {time.monotonic() - began:.1f} s")
        one.write(0, load.per_message)
        peer.settle(one.run, one.topics)
        with one.held():  # all at once: of a part of a round the rest would be late for some peers
            one.write(load.per_message, load.warm)
        one.reach(load.warm)
        rest(peer.processes())
        ready = time.monotonic() - began
        with one.held():
            one.write(load.warm, load.rounds)
            went = time.time()
        with Watch(peer.processes(), one.beside()) as watch:
            last = max(one.reach(load.rounds)["at"].to_list())
        one.check()
    rows = load.counted
    seconds = last / 1000 - went
    say(f"{peer.name}: {rows:,} rows in {seconds:.2f} s")
    return {
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_s": rate(rows, seconds),
        **watch.figures(rows, seconds),
        "ready_seconds": round(ready, 1),
        "results": len(one.expected),
    }
