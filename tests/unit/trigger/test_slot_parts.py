"""The parts of a slot, each without the others: its contents as bytes, failures, tables, control records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace_core.model.schema import Child
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import state
from millrace_core.trigger.slot.backlog import Backlog
from millrace_core.trigger.slot.contents import Contents
from millrace_core.trigger.slot.control import ControlRecords
from millrace_core.trigger.slot.failures import Failures
from millrace_core.trigger.slot.hosted import hosted
from millrace_core.trigger.slot.rows import TableReader
from millrace_core.trigger.stream import Output, compiled, essence
from millrace_core.trigger.stream.state import Life
from millrace_core.wire import control, events, status
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import CONTROL, TRIGGERS, wal_topic

METERS = wal_topic("d", "meters")


def hosting(kit: Any, *uids: int) -> Contents:
    """A slot's contents with these streams, live from the beginning, and the child c1."""
    contents = Contents(0, 1)
    contents.family(METERS).know(Child("d", "meters", "c1", (1, 2)))
    for uid in uids:
        definition = essence(kit.stream(uid))
        contents.streams[uid] = hosted(definition)(Life(definition, 0, {0: 0}), 0)
    return contents


def rows(*times: int, begin: int = 0) -> Messages:
    return Messages.of(
        [
            (METERS, 0, begin + place, 1 + place, b"c1", encode_rows([{"ts": ts, "v": 1}]))
            for place, ts in enumerate(times)
        ]
    )


def records(*told: control.AnyControl, begin: int = 0) -> Messages:
    return Messages.of(
        [
            (CONTROL.name, 0, begin + place, 7, b"", control.encode(record))
            for place, record in enumerate(told)
        ]
    )


def windows(out: list[Output]) -> list[tuple[int, str, int, int]]:
    batches = [events.decode(value) for topic, _, value in out if topic == TRIGGERS.name]
    return [(b.stream, e.kind, e.start, e.end) for b in batches for e in b.events]


def news(out: list[Output]) -> list[status.AnyStatus]:
    return [status.decode(value) for topic, _, value in out if topic != TRIGGERS.name]


# ---------------------------------------------------------------------- as bytes


def test_contents_come_back_from_their_bytes(kit: Any) -> None:
    contents = hosting(kit, 1, 2)
    contents.control, contents.failed, contents.seen = 7, {3: "why"}, {METERS: {0: 5}}
    contents.tables[METERS] = kit.METERS
    contents.refused.totals = {"undecodable_control": 2}
    contents.backlogs[METERS] = Backlog(METERS)
    contents.backlogs[METERS].put_off([1], rows(5), {0: 0})
    blob = state.Snapshots(contents).take()
    found = state.restore(blob)
    assert (found.number, found.slots, found.control) == (0, 1, 7)
    assert (found.failed, found.seen, found.tables) == (
        {3: "why"}, {METERS: {0: 5}}, {METERS: kit.METERS},
    )  # fmt: skip
    assert found.streams.keys() == {1, 2} == found.untouched
    assert found.families[METERS].tags == {b"c1": (1, 2)}
    assert found.refused.totals == {"undecodable_control": 2}
    assert list(found.backlogs[METERS].behind) == [1]
    assert state.Snapshots(found).take() == blob
    assert state.place(blob) == (0, 1)


def test_a_stream_that_is_not_hosted_keeps_its_bytes(kit: Any) -> None:
    blob = state.Snapshots(hosting(kit, 1, 2)).take()
    found = state.restore(blob, absent={1: "it fails"})
    assert (found.streams.keys(), found.unhosted.keys()) == ({2}, {1})
    again = state.restore(state.Snapshots(found).take())
    assert again.streams.keys() == {1, 2}


def test_what_was_not_touched_is_not_encoded_again(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = hosting(kit, 1, 2)
    snapshots = state.Snapshots(contents)
    first = snapshots.take()
    encoded: list[int] = []
    dump = type(contents.streams[1]).dump
    monkeypatch.setattr(
        type(contents.streams[1]), "dump", lambda self: (encoded.append(self.uid), dump(self))[1]
    )
    assert snapshots.take() == first and encoded == []
    contents.touch([2])
    assert snapshots.take() == first and encoded == [2]


# ---------------------------------------------------------------------- failures


def test_who_fails_stops_behind_what_it_has_judged_and_is_told_of_once(kit: Any) -> None:
    contents = hosting(kit, 1)
    contents.seen[METERS] = {0: 9}
    contents.backlogs[METERS] = Backlog(METERS)
    contents.backlogs[METERS].put_off([1], rows(5, begin=8), {0: 8})
    failures, out = Failures(contents), list[Output]()
    failures.set_aside(1, "it does not work", out)
    failures.set_aside(1, "it does not work", out)
    assert not contents.streams[1].live
    assert contents.streams[1].life.stopped_at == {0: 8}, "what it has put off it has not judged"
    assert not contents.backlogs[METERS].behind
    assert news(out) == [status.StreamFailure(1, "it does not work", 0)]
    failures.make_well(1, out)
    assert (contents.failed, news(out)[1:]) == ({}, [status.StreamFailure(1, "", 0)])


# ---------------------------------------------------------------------- tables


def test_the_rows_of_a_table_are_judged_by_the_streams_that_are_there(kit: Any) -> None:
    contents, out = hosting(kit, 1, 2), list[Output]()
    contents.streams[2].life.running = False
    TableReader(contents).read(METERS, rows(1, 5, 12), out)
    assert contents.seen == {METERS: {0: 3}}
    assert windows(out) == [(1, "CLOSE", 0, 10)]
    contents.blame.settle()


def test_rows_put_off_are_judged_when_the_slot_catches_up(kit: Any) -> None:
    contents, out = hosting(kit, *range(1, 9)), list[Output]()
    reader = TableReader(contents)
    reader.read(METERS, rows(1), out)
    state.Snapshots(contents).take()
    reader.read(METERS, rows(5, begin=1), out)
    assert (windows(out), contents.backlogs.keys()) == ([], {METERS})
    reader.catch_up(METERS, out)
    assert not contents.backlogs
    assert {stream.life.totals["rows_used"] for stream in contents.streams.values()} == {2}


# ---------------------------------------------------------------------- control records


class Unread:
    """In place of what reads tables: notes what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, list[int]]] = []

    def read(self, topic: str, messages: Messages, out: list[Output]) -> None:
        self.given.append((topic, messages.offset.tolist()))


def controlled(contents: Contents) -> tuple[ControlRecords, Any]:
    tables: Any = Unread()
    return ControlRecords(contents, Failures(contents), tables), tables


def test_records_make_stop_and_drop_streams_each_once(kit: Any) -> None:
    contents, out = Contents(0, 1), list[Output]()
    obeyed, tables = controlled(contents)
    told = records(control.DefineStream(kit.stream(1), {0: 0}, 0), control.StopStream(1))
    obeyed.obey(told, {CONTROL.name: told}, out)
    assert contents.streams.keys() == {1} and not contents.streams[1].life.running
    assert (contents.control, news(out)) == (1, [status.Applied(1)])
    obeyed.obey(told, {CONTROL.name: told}, out)
    assert len(out) == 1, "what was in force is not obeyed again"
    gone = records(control.DropStream(1), begin=2)
    obeyed.obey(gone, {CONTROL.name: gone}, out)
    assert contents.streams == {} and tables.given == []


def test_who_is_absent_is_not_hosted_and_who_is_aside_does_not_run(kit: Any) -> None:
    contents, out = Contents(0, 1), list[Output]()
    obeyed, _ = controlled(contents)
    obeyed.aside, obeyed.absent = {1: "it fails"}, {2: "it cannot be read"}
    told = records(*(control.DefineStream(kit.stream(uid), {0: 0}, 0) for uid in (1, 2, 3)))
    obeyed.obey(told, {CONTROL.name: told}, out)
    assert {uid: stream.life.running for uid, stream in contents.streams.items()} == {1: False, 3: True}
    assert contents.failed == {1: "it fails"}


def test_a_question_is_kept_with_the_offset_of_its_record(kit: Any) -> None:
    obeyed, _ = controlled(Contents(0, 1))
    asked = control.DiagnoseStream(1, 10)
    told = records(control.StopStream(5), asked)
    obeyed.obey(told, {CONTROL.name: told}, [])
    assert obeyed.take_questions() == [(1, asked)]
    assert obeyed.take_questions() == []


def test_children_are_known_to_the_slot_that_the_record_names(kit: Any) -> None:
    contents = Contents(0, 2)
    obeyed, _ = controlled(contents)
    children = (Child("d", "meters", "c1", (1, 2)),)
    told = records(control.KnowChildren(1, children), control.KnowChildren(0, children))
    obeyed.obey(told.take(np.arange(1)), {}, [])
    assert not contents.families
    obeyed.obey(told, {}, [])
    assert contents.families[METERS].tags == {b"c1": (1, 2)}
    assert compiled(essence(kit.stream(1))).topic == METERS
