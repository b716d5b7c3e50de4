"""Decides whether the notifications that came are those that a case expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace_conformance.values import same

ABSENT = "!absent"
Event = Mapping[str, Any]
Bindings = dict[str, Any]


def match_value(expected: Any, came: Any, bindings: Bindings) -> Bindings | None:
    """The bindings after a match, None if there is none.

    Objects match partially at every depth, lists item by item. ``'$x'`` matches anything, but the same value
    everywhere; ``'!absent'`` (in an object) says that a key must be missing.
    """
    if isinstance(expected, str) and expected.startswith("$"):
        if expected in bindings:
            return bindings if same(bindings[expected], came) else None
        return bindings | {expected: came}
    if isinstance(expected, Mapping):
        return _match_object(expected, came, bindings) if isinstance(came, Mapping) else None
    if isinstance(expected, list | tuple):
        if not isinstance(came, list | tuple) or len(expected) != len(came):
            return None
        for one, other in zip(expected, came, strict=True):
            found = match_value(one, other, bindings)
            if found is None:
                return None
            bindings = found
        return bindings
    return bindings if same(expected, came) else None


def _match_object(expected: Event, came: Event, bindings: Bindings) -> Bindings | None:
    for key, value in expected.items():
        if isinstance(value, str) and value == ABSENT:
            if key in came:
                return None
            continue
        found = match_value(value, came[key], bindings) if key in came else None
        if found is None:
            return None
        bindings = found
    return bindings


def group_of(event: Event) -> tuple[str, str]:
    """The group within which events have an order: one group of one stream. Nothing orders two streams."""
    return str(event.get("streamName")), str(event.get("groupId"))


@dataclass(frozen=True)
class Verdict:
    """``bindings`` if all is well, else None; and sentences that say what is wrong."""

    bindings: Bindings | None
    problems: tuple[str, ...] = ()
    too_many: bool = False
    """Waiting longer cannot help: more events came than are allowed."""


def judge(expected: Sequence[Event], came: Sequence[Event], complete: bool, bindings: Bindings) -> Verdict:
    """Whether a separate event came for each expected one, in the expected order within its group.

    ``complete``: the streams that ``expected`` names may have no other events; if it names none, no events
    may have come at all.
    """
    names = [event["streamName"] for event in expected]
    ours = [
        event for event in came if not names or any(_may_be(name, event.get("streamName")) for name in names)
    ]
    assigned = _assign(expected, came, bindings)
    problems = []
    if complete and len(ours) > len(expected):
        problems.append(f"{len(ours) - len(expected)} more events arrived than expected")
    if assigned is None:
        problems += _missing(expected, came, bindings)
    if problems:
        return Verdict(None, tuple(problems), complete and len(ours) > len(expected))
    return Verdict(assigned)


def _may_be(name: str, came: object) -> bool:
    return name.startswith("$") or same(name, came)


def _missing(expected: Sequence[Event], came: Sequence[Event], bindings: Bindings) -> list[str]:
    missing = [
        f"no event like {dict(event)} arrived"
        for event in expected
        if all(match_value(event, one, bindings) is None for one in came)
    ]
    return missing or ["every expected event arrived, but not each one separately, in this order"]


def _assign(expected: Sequence[Event], came: Sequence[Event], bindings: Bindings) -> Bindings | None:
    """A search that remembers the states that led nowhere; a state is how far each group has been read."""
    groups = [group_of(event) for event in came]
    dead: set[tuple[int, str]] = set()

    def search(index: int, last: dict[tuple[str, str], int], bound: Bindings) -> Bindings | None:
        if index == len(expected):
            return bound
        state = (index, repr((sorted(last.items()), sorted(bound.items(), key=lambda item: item[0]))))
        if state in dead:
            return None
        for number, event in enumerate(came):
            if number <= last.get(groups[number], -1):
                continue
            now = match_value(expected[index], event, bound)
            if now is not None:
                found = search(index + 1, last | {groups[number]: number}, now)
                if found is not None:
                    return found
        dead.add(state)
        return None

    return search(0, {}, bindings)


def without_repeats(events: Sequence[Event]) -> list[Event]:
    """The events without those that came again after a service was killed. A repeated event is the same but
    for its ``eventTime``; its triggerId is the same too."""
    kept: dict[str, Event] = {}
    for event in events:
        what = sorted((key, repr(value)) for key, value in event.items() if key != "eventTime")
        kept.setdefault(repr(what), event)
    return list(kept.values())
