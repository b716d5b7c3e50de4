"""The two vocabularies for streams: which statements stop and start one, and what its states are called.

Streams with global names are paused and resumed (seed 002); those of a database are stopped and started
(seed 000).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace_core.model.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Life:
    """``stop``, ``start``: the words of the statements; ``states``: what a state is called, if not by its own
    name. ``holds``: what the stream reads and writes cannot be dropped while the stream exists.
    ``needs_snode``: an snode that existed when the stream was made cannot be dropped."""

    stop: str
    start: str
    states: Mapping[str, str]
    holds: bool = False
    needs_snode: bool = True


OF_DATABASE = Life("STOP", "START", {})
GLOBAL = Life(
    "PAUSE",
    "RESUME",
    # nobody has paused a stream that waits for an address to be notified: it stays ready, with a message
    {"Init": "init", "Running": "ready", "Paused": "ready", "Stopped": "paused", "Failed": "failed"},
    holds=True,
    needs_snode=False,
)


def life_of(spec: StreamSpec) -> Life:
    return OF_DATABASE if spec.db else GLOBAL


def shown_state(spec: StreamSpec, state: str) -> str:
    """A state in the words in which users know it for such a stream."""
    return life_of(spec).states.get(state, state)
