"""When the notifications that came are those that a case expects."""

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

    Objects match partially at every depth, lists item by item. ``'$x'`` is anything, but the same everywhere;
    ``'!absent'`` (in an object) says that a key is not there.
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
    """Events are in order within one group of one stream; nothing orders two streams."""
    return str(event.get("streamName")), str(event.get("groupId"))


@dataclass(frozen=True)
class Verdict:
    """``bindings`` if all is well, else None; and the sentences that say what is wrong."""

    bindings: Bindings | None
    problems: tuple[str, ...] = ()
    too_many: bool = False
    """Waiting longer cannot help: more events came than may come."""


def judge(expected: Sequence[Event], came: Sequence[Event], complete: bool, bindings: Bindings) -> Verdict:
    """Whether each expected event came, as an event of its own, in the expected order within its group.

    ``complete``: no other event of the streams that ``expected`` names may be there; if it names none, no
    event at all.
    """
    names = [event["streamName"] for event in expected]
    ours = [
        event for event in came if not names or any(_may_be(name, event.get("streamName")) for name in names)
    ]
    assigned = _assign(expected, came, bindings)
    problems = []
    if complete and len(ours) > len(expected):
        problems.append(f"{len(ours) - len(expected)} events more than expected came")
    if assigned is None:
        problems += _missing(expected, came, bindings)
    if problems:
        return Verdict(None, tuple(problems), complete and len(ours) > len(expected))
    return Verdict(assigned)


def _may_be(name: str, came: object) -> bool:
    return name.startswith("$") or same(name, came)


def _missing(expected: Sequence[Event], came: Sequence[Event], bindings: Bindings) -> list[str]:
    missing = [
        f"no event came like {dict(event)}"
        for event in expected
        if all(match_value(event, one, bindings) is None for one in came)
    ]
    return missing or ["each expected event came, but not each its own, in this order"]


def _assign(expected: Sequence[Event], came: Sequence[Event], bindings: Bindings) -> Bindings | None:
    """A search with the states that led nowhere remembered: how far each group is read is all that counts."""
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
    """The events without those that came again after a service was killed: all but their ``eventTime`` is
    the same, triggerId included."""
    kept: dict[str, Event] = {}
    for event in events:
        what = sorted((key, repr(value)) for key, value in event.items() if key != "eventTime")
        kept.setdefault(repr(what), event)
    return list(kept.values())
