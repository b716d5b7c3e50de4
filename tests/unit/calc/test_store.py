"""The table store over the in-memory log: rows, members, dead letters, restarts, eviction, dropped tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc_svc.store.tables import TableStore
from millrace_core.calc.waiting import Wanted
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Child
from millrace_core.store.intake import Intake
from millrace_core.store.rows import TableRows, Unflushed
from millrace_core.wire import topics
from millrace_core.wire.operations import Delete, Drop, Register
from millrace_core.wire.topics import wal_topic
from millrace_wal import replay

from ...conftest import examples
from .conftest import METERS, PLAIN, TOPIC, Rows, Running, eventually, row


def test_rows_of_children_and_normal_tables(running: Running) -> None:
    running.send("m1", [row(1, 5), row(2, 6)])
    running.send(None, row(3, 7), PLAIN)
    running.send("log", {"ts": 4}, PLAIN)
    assert running.rows() == {("m1", 1): (1, 5, "x"), ("m1", 2): (2, 6, "x")}
    assert running.rows(PLAIN) == {("log", 3): (3, 7, "x"), ("log", 4): (4, None, None)}


def test_bad_messages_become_dead_letters_and_cost_no_good_one(running: Running) -> None:
    running.send("m1", {"ts": "noon"})
    running.send("nobody", row(1))
    running.send("m2", {"tags": {"site": "here"}, "rows": [row(1)]})
    running.send("m2", {"tags": {"colour": 1}, "rows": [row(1)]})
    running.send(None, row(1))
    running.send("m1", row(9))
    running.send("other", row(1), PLAIN)
    assert running.rows() == {("m1", 9): (9, 0, "x")}
    assert running.rows(PLAIN) == {}
    eventually(lambda: len(running.letters()) == 6)
    causes = sorted((letter.key or b"", letter.cause) for letter in running.letters())
    assert causes == [
        (b"", "UNKNOWN_TABLE"),
        (b"m1", "UNDECODABLE"),
        (b"m2", "UNDECODABLE"),
        (b"m2", "UNDECODABLE"),
        (b"nobody", "UNKNOWN_TABLE"),
        (b"other", "UNKNOWN_TABLE"),
    ]
    first = next(letter for letter in running.letters() if letter.key == b"m1")
    assert (first.topic, first.value) == (TOPIC, b'{"ts":"noon"}')


def test_a_child_registers_itself_once(running: Running) -> None:
    running.send("m2", {"tags": {"site": 2}, "rows": [row(1)]})
    running.send("m2", {"tags": {"site": 3}, "rows": [row(2)]})
    assert set(running.rows()) == {("m2", 1), ("m2", 2)}
    family = running.store.table(METERS).family
    assert family.group({"site": 2}).tolist() == [family.numbers["m2"]]
    told = [record.value for record in replay(running.log, topics.REGISTRATIONS.name)]
    assert [msgspec.json.decode(v or b"", type=Child) for v in told] == [Child("power", "meters", "m2", (2,))]
    # the gateway was not there to turn it into a catalog record
    running.restart()
    running.send("m2", row(3))
    assert set(running.rows()) == {("m2", 1), ("m2", 2), ("m2", 3)}
    assert running.letters() == []


def test_a_child_dropped_and_made_again_is_another(running: Running) -> None:
    running.send("m1", row(1))
    running.send("m1", Drop())
    running.send("m1", row(2))
    running.send("m1", Register({"site": 4}, 1))
    running.send("m1", row(3))
    assert set(running.rows()) == {("m1", 3)}
    eventually(lambda: [letter.cause for letter in running.letters()] == ["UNKNOWN_TABLE"])
    family = running.store.table(METERS).family
    assert family.uids[family.numbers["m1"]] == Child("power", "meters", "m1", (4,), 1).uid


def test_deletes_reach_rows_that_are_flushed(running: Running) -> None:
    running.send("m1", [row(1), row(2), row(3)])
    running.wait()
    stored = running.store.table(METERS)
    assert stored.flush() == 3
    running.send("m1", Delete(2, 2))
    running.send("m1", row(3, 9))
    assert set(running.rows()) == {("m1", 1), ("m1", 3)}
    assert stored.flush() == 1
    assert stored.flush() == 0
    running.restart()
    assert running.rows() == {("m1", 1): (1, 0, "x"), ("m1", 3): (3, 9, "x")}


def test_a_dropped_table_made_again_is_empty(running: Running) -> None:
    running.send(None, row(1), PLAIN)
    assert len(running.rows(PLAIN)) == 1
    running.store.table(PLAIN).flush()
    topic = wal_topic(PLAIN.db, PLAIN.name)
    running.undefine(PLAIN)
    eventually(lambda: running.store.by_topic(topic) is None)
    eventually(lambda: not (running.folder / "8").exists())
    with pytest.raises(MillraceError) as refused:
        running.store.table(PLAIN)
    assert refused.value.code is ErrorCode.UNKNOWN_TABLE
    running.log.delete_topics([topic])
    again = msgspec.structs.replace(PLAIN, uid=9)
    running.define(again)
    running.send(None, row(2), again)
    assert set(running.rows(again)) == {("log", 2)}
    running.restart()
    assert set(running.rows(again)) == {("log", 2)}


def test_after_a_restart_a_table_is_there_when_all_of_the_log_is(running: Running) -> None:
    running.send("m1", [row(1), row(2)])
    ends = running.log.end_offsets(TOPIC)
    (partition,) = (partition for partition, end in ends.items() if end)
    running.stop()
    store = TableStore(running.catalog, running.folder, 1000)
    stored = store.open(METERS)
    stored.resume(running.log.begin_offsets(TOPIC), {partition: 3})
    store.wait(0, {}, 0.05, opened=TOPIC)  # to write to it nothing need have been read
    for other in ({partition: 1}, {1 - partition: 0}, {}):
        stored.advance({partition: 1})
        with pytest.raises(MillraceError, match="offset 3 "):
            store.wait(0, {TOPIC: other}, 0.05)
    stored.advance({partition: 3})
    store.wait(0, {TOPIC: {partition: 1}}, 0.05)


def test_waiting_names_what_is_missing(running: Running) -> None:
    with pytest.raises(MillraceError, match="meters") as late:
        running.store.wait(0, {TOPIC: {0: 99}}, 0.05)
    assert late.value.code is ErrorCode.TIMEOUT
    running.store.wait(0, {wal_topic("power", "gone"): {0: 99}}, 0.05)


def test_rows_below_the_floor_are_read_from_delta(tmp_path: Path) -> None:
    running = Running(tmp_path / "tables", memory_rows=40)
    running.define(METERS, Child("power", "meters", "m1", (1,)))
    running.start()
    for begin in range(0, 100, 20):
        running.send("m1", [row(ts) for ts in range(begin, begin + 20)])
        running.wait()
        running.store.table(METERS).flush()
    stored = running.store.table(METERS)
    stored.evict_half()
    assert 40 < stored.rows.count < 60
    running.send("m1", [{"ts": 5, "amps": 50}, row(95, 95)])
    found = running.rows()
    assert len(found) == 100
    assert (found["m1", 5], found["m1", 95]) == ((5, 50, "x"), (95, 95, "x"))
    assert set(running.rows(low=4, high=6)) == {("m1", 4), ("m1", 5), ("m1", 6)}
    running.restart()
    stored = running.store.table(METERS)
    assert stored.rows.count < 100, "only the newest files fit into memory"
    assert running.rows() == found
    running.stop()


def test_nobody_waits_while_messages_are_decoded_and_while_rows_are_copied(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.wait()
    stored = running.store.table(METERS)
    free: dict[str, bool] = {}

    def noting(whose: type, name: str) -> None:
        original = getattr(whose, name)

        def method(*given_: Any) -> Any:
            with ThreadPoolExecutor(1) as other:
                free[name] = other.submit(stored.lock.acquire, False).result()
                if free[name]:
                    other.submit(stored.lock.release).result()
            return original(*given_)

        monkeypatch.setattr(whose, name, method)

    noting(Intake, "decode")
    noting(TableRows, "thinned")
    noting(Unflushed, "sorted")
    running.send("m1", [row(ts) for ts in range(20)])
    running.wait()
    stored.evict_half()
    assert free == {"decode": True, "sorted": True, "thinned": True}
    assert stored.rows.count < 20 and len(running.rows()) == 20


step = st.one_of(
    st.tuples(
        st.just("rows"), st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(0, 3)), max_size=4)
    ),
    st.tuples(st.just("partial"), st.tuples(st.integers(0, 7), st.integers(4, 9))),
    st.tuples(st.just("delete"), st.tuples(st.integers(0, 7), st.integers(0, 7))),
    st.tuples(st.just("drop"), st.none()),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("evict"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


class Model:
    """What the table must hold, step by step."""

    def __init__(self, running: Running) -> None:
        self.running, self.rows, self.incarnation = running, {}, 0
        self.rows: Rows

    def do(self, what: str, how: object) -> None:
        match what, how:
            case "rows", list(cells):
                self.running.send("m1", [row(ts, amps) for ts, amps in cells])
                self.rows |= {("m1", ts): (ts, amps, "x") for ts, amps in cells}
            case "partial", (ts, amps):
                self.running.send("m1", {"ts": ts, "amps": amps})
                self.rows["m1", ts] = (ts, amps, self.rows.get(("m1", ts), (ts, amps, None))[2])
            case "delete", (first, last):
                self.running.send("m1", Delete(first, last))
                self.rows = {k: v for k, v in self.rows.items() if not first <= k[1] <= last}
            case "drop", _:
                self.incarnation += 1
                self.running.send("m1", Drop())
                self.running.send("m1", Register({"site": 1}, self.incarnation))
                self.rows = {}
            case "restart", _:
                self.running.restart()
            case _:
                self.running.wait()
                stored = self.running.store.table(METERS)
                _ = stored.flush() if what == "flush" else stored.evict_half()


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, min_size=1, max_size=12))
def test_flushes_evictions_and_restarts_are_invisible(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    running = Running(tmp_path_factory.mktemp("tables"))
    running.define(METERS, Child("power", "meters", "m1", (1,)))
    running.start()
    model = Model(running)
    try:
        for what, how in steps:
            model.do(what, how)
        assert running.rows() == model.rows
        running.store.table(METERS).flush()
        running.restart()
        assert running.rows() == model.rows
    finally:
        running.stop()


def test_rows_of_a_table_that_has_another_successor_are_not_waited_for(running: Running) -> None:
    wanted = Wanted(wal={TOPIC: {0: 99}}, uids={TOPIC: METERS.uid})
    assert running.store.missing(wanted) == f"{TOPIC}/0 offset 99 (at 0)"
    running.undefine(METERS)
    eventually(lambda: running.store.missing(wanted) is None)
    running.define(msgspec.structs.replace(METERS, uid=77))
    eventually(lambda: running.store.by_topic(TOPIC) is not None)
    assert running.store.missing(wanted) is None
    assert running.store.missing(Wanted(wal={TOPIC: {0: 99}})) is not None
