"""The results file: what several commands found, put together by measure.

``{"parts": {id: {machine, versions, commit, command, date}}, "measures": {measure: [run, …]}}``. A run is one
point of one peer: ``job``, ``of`` (what tells the point from others), ``peer``, ``part`` (the command that
it is of), and ``figures`` or the ``error`` that says why it does not count. Figures of one part are of one
machine, one commit and times close to each other: only those may be held against each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

Run = Mapping[str, Any]
EMPTY: Mapping[str, Any] = {"parts": {}, "measures": {}}


def read(place: Path) -> Mapping[str, Any]:
    """What is there. :raises ValueError: if the file is not a results file."""
    if not place.exists():
        return EMPTY
    found = json.loads(place.read_text())
    if not isinstance(found, dict) or set(found) != set(EMPTY):
        raise ValueError(f"{place} is not a results file of bench.peers: its keys must be {', '.join(EMPTY)}")
    return found


def write(place: Path, results: Mapping[str, Any]) -> None:
    """Writes it whole, or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(".tmp")
    beside.write_text(json.dumps(results, indent=2) + "\n")
    beside.replace(place)


def merged(
    before: Mapping[str, Any],
    part: str,
    about: Mapping[str, Any],
    measure: str,
    run: Run,
    order: Sequence[str],
) -> dict[str, Any]:
    """``before`` with one more run, which takes the place of an earlier one of the same point and peer.
    Measures are in ``order``; parts none of whose runs is left are gone."""
    runs = {name: list(found) for name, found in before["measures"].items()}
    own = [one for one in runs.get(measure, []) if _name(one) != _name(run)]
    runs[measure] = sorted([*own, {**run, "part": part}], key=_place)
    measures = {name: runs[name] for name in order if name in runs}
    left = {one["part"] for found in measures.values() for one in found}
    parts = {**before["parts"], part: dict(about)}
    return {"parts": {name: parts[name] for name in sorted(left)}, "measures": measures}


def taken(results: Mapping[str, Any], measure: str, job: str, of: Mapping[str, int]) -> set[str]:
    """The peers of which this point has figures: what does not count is still to be taken."""
    found = results["measures"].get(measure, [])
    return {one["peer"] for one in found if one["job"] == job and one["of"] == of and "figures" in one}


def runs(results: Mapping[str, Any]) -> Iterator[tuple[str, Run]]:
    """(measure, run) of all."""
    for measure, found in results["measures"].items():
        for one in found:
            yield measure, one


def middle(runs: Sequence[Run]) -> Run:
    """Several runs of one point and peer as one: of each figure the median, and how many ``turns`` that is
    of. Runs that do not count are left out, unless none counts."""
    good = [one for one in runs if "figures" in one]
    if len(good) < 2:
        return (good or runs)[-1]
    return {**good[0], "figures": {**_middle([one["figures"] for one in good]), "turns": len(good)}}


def _middle(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in figures for name in one):
        own = [one[name] for one in figures if name in one]
        found[name] = _middle(own) if isinstance(own[0], Mapping) else round(median(own), 3)
    return found


def _name(run: Run) -> tuple[Any, ...]:
    return (run["job"], *sorted(run["of"].items()), run["peer"])


def _place(run: Run) -> tuple[Any, ...]:
    """Points in order; the peers of one point as they came."""
    return (run["job"], *sorted(run["of"].items()))
