"""Holds the notifications of a stream against its results: at least one each, the last one right. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.chaos.judge import Verdict
from tests.chaos.oracle import Result
from tests.chaos.streams import Stream, child_name

Notice = Mapping[str, Any]
Window = tuple[str, int]
"""The output table of a group, and a window's start."""


def judge_notices(stream: Stream, expected: Sequence[Result], events: Iterable[Notice]) -> Verdict:
    """``events``: those of the stream, as they came. They may come again, but in their order: so what was
    said last of a window holds."""
    what = f"{stream.name} notified"
    verdict = Verdict(expected=len(expected))
    told: dict[Window, list[Notice]] = defaultdict(list)
    for event in events:
        told[_child_of(stream, str(event.get("tableName"))), int(event["windowStart"])].append(event)
    verdict.wrong += _ids(what, told, "windowId" if stream.older else "triggerId")
    known: set[Window] = set()
    for one in expected:
        window = child_name(stream, one.group), one.ts
        known.add(window)
        if problem := _problem(told.get(window, []), one, one.upto - stream.after):
            (verdict.missing if problem.startswith("no ") else verdict.wrong).append(
                f"{what}: {window[0]} {one.ts} to {one.upto}: {problem}"
            )
        else:
            verdict.right += 1
    for window in sorted(told.keys() - known):
        if _holds(stream, told[window]):
            verdict.wrong.append(f"{what}: {window[0]} {window[1]}: closed, but no such window is left")
    return verdict


def _problem(events: Sequence[Notice], one: Result, end: int) -> str:
    """What is wrong with what was said of a window that is one in the end; '' if nothing is. ``end``: as
    notifications have it."""
    if not any(event["eventType"] == "WINDOW_OPEN" for event in events):
        return "no WINDOW_OPEN came"
    ends = [event for event in events if event["eventType"] != "WINDOW_OPEN"]
    if not any(event["eventType"] == "WINDOW_CLOSE" for event in ends):
        return "no WINDOW_CLOSE came"
    last = ends[-1]
    if last["eventType"] != "WINDOW_CLOSE":
        return f"the last word was {last['eventType']}"
    result = last.get("result") or {}
    said = last.get("windowEnd"), result.get("n"), result.get("total")
    if said != (end, one.n, one.total):
        return f"the last WINDOW_CLOSE said {said}, not {(end, one.n, one.total)}"
    return ""


def _holds(stream: Stream, events: Sequence[Notice]) -> bool:
    """Whether the last word on a window says that it is closed; an INTERVAL's may be empty."""
    ends = [event for event in events if event["eventType"] != "WINDOW_OPEN"]
    if not ends or ends[-1]["eventType"] != "WINDOW_CLOSE":
        return False
    result = ends[-1].get("result") or {}
    empty = stream.fires_empty and result.get("n") == 0
    return not empty


def _child_of(stream: Stream, table: str) -> str:
    """The output table of a group: the older dialect puts more behind its name."""
    return table.partition(f"_{stream.output}_")[0] if stream.older else table


def _ids(what: str, told: Mapping[Window, Sequence[Notice]], name: str) -> list[str]:
    """A window has one id (the field ``name``), whatever is said of it, and no other window has it."""
    found: list[str] = []
    whose: dict[str, Window] = {}
    for window, events in told.items():
        ids = {str(event[name]) for event in events}
        if len(ids) > 1:
            found.append(f"{what}: {window[0]} {window[1]} has several {name}s: {sorted(ids)}")
        found += [
            f"{what}: {window} and {whose[one]} have the {name} {one}"
            for one in ids
            if whose.setdefault(one, window) != window
        ]
    return found
