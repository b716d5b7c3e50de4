"""What the gateway says of a stream, from what the services said."""

from __future__ import annotations

from api_gateway.watching.status_board import StatusBoard
from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.types import Period
from millrace_core.wire import status
from millrace_core.wire.status import AnyStatus, Applied, StreamFailure, StreamPaused
from millrace_core.wire.topics import STATUS
from millrace_wal import Record


def record(found: AnyStatus, *, deleted: bool = False) -> Record:
    return Record(STATUS.name, 0, 0, 0, status.key(found), None if deleted else status.encode(found))


def entry(wanted: str = "Running") -> StreamEntry:
    return StreamEntry(StreamSpec(7, "db", "s", "", Period(Duration(1, "d"))), wanted, 0, 3)


def test_a_stream_is_paused_while_any_partition_of_it_is() -> None:
    board = StatusBoard()
    board.take(record(Applied(3)))
    assert board.of(entry(), Catalog()) == ("Running", "")
    one, other = StreamPaused(7, 0, 5, "ws://a is away"), StreamPaused(7, 2, 9, "ws://a is away")
    for pause in (one, other, StreamPaused(8, 0, 1, "another stream")):
        board.take(record(pause))
    assert board.of(entry(), Catalog()) == ("Paused", "ws://a is away")
    assert board.of(entry("Stopped"), Catalog()) == ("Stopped", "")
    board.take(record(one, deleted=True))
    assert board.of(entry(), Catalog())[0] == "Paused"
    board.take(record(other, deleted=True))
    assert board.of(entry(), Catalog()) == ("Running", "")


def test_a_failure_says_more_than_a_pause() -> None:
    board = StatusBoard()
    board.take(record(StreamPaused(7, 0, 5, "ws://a is away")))
    assert board.of(entry(), Catalog())[0] == "Init"
    board.take(record(StreamFailure(7, "no such table")))
    assert board.of(entry(), Catalog()) == ("Failed", "no such table")


def test_slots_and_the_calculation_fail_and_get_well_by_themselves() -> None:
    board = StatusBoard()
    board.take(record(Applied(3)))
    board.take(record(StreamFailure(7, "ValueError: no", 2)))
    board.take(record(StreamFailure(7, "no such column")))
    assert board.of(entry(), Catalog()) == ("Failed", "ValueError: no")
    assert board.set_aside(entry())
    board.take(record(StreamFailure(7, "")))
    assert board.of(entry(), Catalog()) == ("Failed", "ValueError: no"), (
        "a calculation does not make a slot well"
    )
    board.take(record(StreamFailure(7, "", 2)))
    assert board.of(entry(), Catalog()) == ("Running", "")
    board.take(record(StreamFailure(7, "no such column")))
    assert board.of(entry(), Catalog())[0] == "Failed" and not board.set_aside(entry())
