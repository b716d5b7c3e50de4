"""Offsets that a topic has forgotten before calc-svc read them."""

from __future__ import annotations

from millrace_core.wire import status
from millrace_core.wire.status import Problem
from millrace_core.wire.topics import STATUS
from millrace_wal import replay

from .conftest import TOPIC, Running, eventually, row


def told(running: Running) -> list[Problem]:
    news = [status.decode(record.value) for record in replay(running.log, STATUS.name) if record.value]
    return [one for one in news if isinstance(one, Problem)]


def test_rows_that_are_gone_while_the_service_is_down_are_told(running: Running) -> None:
    running.send("m1", row(0))
    running.wait()
    for stored in running.store.tables():
        stored.flush()
    running.stop()
    for ts in range(1, 6):
        running.send("m1", row(ts))
    (partition,) = (p for p, end in running.log.end_offsets(TOPIC).items() if end)
    running.log.trim({TOPIC: {partition: 4}})
    running.start()
    assert sorted(ts for _, ts in running.rows()) == [0, 4, 5]
    (problem,) = told(running)
    assert (problem.what, problem.topics) == (f"gap/{TOPIC}/{partition}", (TOPIC,))
    place = f"topic {TOPIC}, partition {partition},"
    assert problem.message == f"calc-svc: 3 offsets of {place} were deleted before they were read: 1 to 3"
    for stored in running.store.tables():
        stored.flush()
    running.restart()
    running.wait()
    assert len(told(running)) == 1, "it is behind it now"


def test_rows_that_vanish_under_the_reader_are_told(running: Running) -> None:
    running.send("m1", row(0))
    running.wait()
    (partition,) = (p for p, end in running.log.end_offsets(TOPIC).items() if end)
    with running.log.changed:  # type: ignore[attr-defined]
        for ts in range(1, 6):
            running.send("m1", row(ts))
        running.log.trim({TOPIC: {partition: 3}})
    assert sorted(ts for _, ts in running.rows()) == [0, 3, 4, 5]
    (problem,) = told(running)
    assert problem.message.endswith("1 to 2")


def test_a_topic_of_which_all_is_gone_is_told(running: Running) -> None:
    running.send("m1", row(0))
    running.wait()
    for stored in running.store.tables():
        stored.flush()
    running.stop()
    running.send("m1", row(1))
    running.log.empty_topics([TOPIC])
    running.start()
    eventually(lambda: bool(told(running)))
    assert told(running)[0].message.endswith("1 to 1")


def test_a_table_that_is_made_anew_on_an_old_topic_has_lost_nothing(running: Running) -> None:
    running.send("m1", row(0))
    running.wait()
    running.stop()
    running.log.empty_topics([TOPIC])
    running.send("m1", row(5))
    running.start()
    assert sorted(ts for _, ts in running.rows()) == [5]
    assert told(running) == []
