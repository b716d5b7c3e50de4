"""A stream that counts a rewritten row once more reads what was written over, too; in what is calculated
again the table alone counts (IGNORE UPDATE 1 of seed 002)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calc_svc.store import superseded_files
from calc_svc.store.table import StoredTable
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Emission, Output, OutputTag, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.store.place import place_of
from millrace_core.store.rows import TableRows
from millrace_core.store.superseded import Superseded
from millrace_core.trigger.types import Interval
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.operations import Delete, encode_operation

from ...conftest import examples
from .conftest import StoredTables

INT = DataType("INT")
SOURCE = Table(
    "d", "src", "super", 7, "ms", (Column("ts", TIMESTAMP), Column("v", INT)), (Column("site", INT),)
)
TAG = OutputTag(Column("site", INT), "site")
COLUMNS = (Column("ts", TIMESTAMP), Column("n", BIGINT), Column("s", BIGINT))
OUT = Table("d", "res", "super", 9, "ms", COLUMNS, (TAG.column,))
MINUTE = Duration(1, "m")
SPEC = StreamSpec(
    1, "d", "s", "", Interval(MINUTE, MINUTE), Source(SOURCE), ("site",), database="d",
    query="SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows",
    output=Output("d", "res", COLUMNS, (TAG,)), emission=Emission(rewritten="counted"),
)  # fmt: skip


class Desk(StoredTables):
    def __init__(self, folder: Path, duck: Any, spec: StreamSpec = SPEC) -> None:
        children = [Child("d", "src", name, (site,)) for name, site in (("a", 1), ("b", 1), ("c", 2))]
        super().__init__(folder, duck, Database("d"), SOURCE, OUT, *children)
        self.learn(StreamEntry(spec, "Running", 0, 1))
        self.stored = self.store.table(SOURCE)
        for child in children:
            self.stored.register(child)

    def write(self, name: str, *rows: tuple[int, int]) -> None:
        value = msgspec.json.encode([{"ts": ts, "v": v} for ts, v in rows])
        self.stored.take([name.encode()], [value])

    def results(self, cause: Any = "LIVE", groups: tuple[int, ...] = (1,), written: Any = None) -> list[Any]:
        """The window of the first minute, of these groups: (rows, sum)."""
        event = TriggerEvent("", "CLOSE", cause, Group(0, (), None), 0, 60_000, 1, 0, written=written)
        events = [
            msgspec.structs.replace(event, id=str(site), group=Group(site, (site,), None)) for site in groups
        ]
        product = self.jobs.run(1, [TriggerBatch(1, 0, 0, 1, {}, events)])
        rows = [json for m in product.messages for json in msgspec.json.decode(m.value)["rows"]]
        return [(row["n"], row["s"]) for row in rows]


@pytest.fixture
def desk(tmp_path: Path, duck: Any) -> Desk:
    made = Desk(tmp_path, duck)
    made.store.count_rewritten()
    return made


def test_a_row_counts_as_often_as_it_was_written(desk: Desk) -> None:
    desk.write("a", (5, 1), (7, 10))
    desk.write("a", (5, 2))
    desk.write("a", (5, 3), (5, 4))
    desk.write("b", (5, 100))
    desk.write("c", (5, 1000), (5, 2000), (60_000, 1), (60_000, 2))
    assert desk.results() == [(6, 1 + 2 + 3 + 4 + 10 + 100)]
    assert desk.results("DELAY", (1, 2)) == [(6, 120), (2, 3000)]


@pytest.mark.parametrize("cause", ["RECALC", "HISTORY"])
def test_what_is_calculated_again_is_read_as_the_table_is(desk: Desk, cause: str) -> None:
    desk.write("a", (5, 1), (5, 2))
    desk.write("a", (5, 3))
    assert desk.results(cause) == [(1, 3)]


def test_what_a_stream_was_told_to_leave_out_does_not_count(desk: Desk) -> None:
    """RESUME IGNORE UNTREATED: of a window that stayed open rows of the pause are not in it; what is
    calculated again is read as the table is."""
    for offset, ts in enumerate((5, 6, 7)):
        place = np.array([place_of(0, offset)], dtype=np.int64)
        desk.stored.take([b"a"], [msgspec.json.encode([{"ts": ts, "v": 10**offset}])], place)
    desk.learn(StreamEntry(SPEC, "Running", 1, 1, skipped=((0, 1, 2),)))
    assert desk.results() == [(2, 101)]
    assert desk.results("DELAY", (1, 2)) == [(2, 101), (0, None)]
    assert desk.results("RECALC") == [(3, 111)]


def test_a_table_that_the_query_names_is_read_whole(tmp_path: Path, duck: Any) -> None:
    """What a stream was told to leave out, and what was written later, is left out of its windows' rows
    alone."""
    query = (
        "SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM d.src "
        "WHERE site = %%1 AND ts >= _twstart AND ts < _twend"
    )
    desk = Desk(tmp_path, duck, msgspec.structs.replace(SPEC, query=query))
    for offset, name in enumerate(("a", "b", "c")):
        place = np.array([place_of(0, offset)], dtype=np.int64)
        desk.stored.take([name.encode()], [msgspec.json.encode([{"ts": 5, "v": 10**offset}])], place)
    entry = StreamEntry(msgspec.structs.replace(SPEC, query=query), "Running", 1, 1, skipped=((0, 1, 3),))
    desk.learn(entry)
    for written in (None, {0: (0, 1)}):
        assert desk.results("LIVE", (1,), written) == [(2, 11)]
        assert desk.results("LIVE", (1, 2), written) == [(2, 11), (1, 100)]


def test_what_was_deleted_was_never_written(desk: Desk) -> None:
    desk.write("a", (5, 1), (5, 2), (9, 10), (9, 20))
    desk.stored.take([b"a"], [encode_operation(Delete(0, 6))])
    desk.write("a", (5, 7))
    assert desk.results() == [(3, 37)]


def test_a_stream_that_corrects_reads_the_table_alone(tmp_path: Path, duck: Any) -> None:
    desk = Desk(tmp_path, duck, msgspec.structs.replace(SPEC, emission=Emission()))
    desk.store.count_rewritten()
    desk.write("a", (5, 1), (5, 2))
    assert desk.stored.rows.superseded is None
    assert desk.results() == [(1, 2)]


ROWS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 99)), max_size=6))


@given(ROWS, st.booleans())
def test_all_that_was_written_is_in_the_table_or_superseded(batches: list[Any], seal: bool) -> None:
    rows = TableRows(SOURCE, superseded=Superseded())
    written: list[tuple[int, int, int]] = []
    for batch in batches:
        child = np.array([c for c, _, _ in batch], dtype=np.int32)
        frame = pl.DataFrame(
            {"ts": [t for _, t, _ in batch], "v": [v for _, _, v in batch]},
            schema={"ts": pl.Int64, "v": pl.Int32},
        )
        rows.append(child, frame, {})
        written += batch
        if seal:
            rows.seal()
    slices = rows.slices()
    assert rows.superseded is not None
    runs = [*slices.runs, *rows.superseded.runs]
    living = [run.living() for run in runs]
    found = [
        (c, t, v) for run in living for c, (t, v) in zip(run.child.tolist(), run.data.rows(), strict=True)
    ]
    assert sorted(found) == sorted(written)


class Restarted:
    """A table of its own; what is in memory alone can be forgotten."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.offset, self.log = folder, 0, list[tuple[bytes, bytes]]()
        self.open()

    def open(self) -> None:
        children = [Child("d", "src", name, (1,)) for name in ("a", "b")]
        self.stored = StoredTable(SOURCE, self.folder, children, 1_000)
        again = self.stored.resume({0: 0}, {0: self.offset})[0]
        self.stored.count_rewritten()
        for offset in range(again, self.offset):
            self._take(offset)

    def write(self, key: bytes, value: bytes) -> None:
        self.log.append((key, value))
        self.offset += 1
        self._take(self.offset - 1)

    def _take(self, offset: int) -> None:
        key, value = self.log[offset]
        self.stored.take([key], [value], np.array([place_of(0, offset)], dtype=np.int64))
        self.stored.advance({0: offset + 1})

    def versions(self) -> list[tuple[Any, ...]]:
        """All that was written over: child, time, value."""
        kept = self.stored.superseded()
        names = self.stored.family.names
        return sorted(
            (names[child], *cells)
            for run in kept.runs
            for child, cells in zip(run.child.tolist(), run.data.rows(), strict=True)
        )


step = st.one_of(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=1, max_size=3),
    st.sampled_from(["flush", "restart", "crash", "delete", "flush", "flush"]),
)


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@example(steps=[(b"a", "flush"), (b"b", [(0, 0), (0, 0)])])
@given(steps=st.lists(st.tuples(st.sampled_from([b"a", b"b"]), step), max_size=14))
def test_restarts_forget_nothing_that_was_written_over(tmp_path_factory: Any, steps: Any) -> None:
    """Whatever was flushed by then, and wherever a flush ended."""
    one = Restarted(Path(tmp_path_factory.mktemp("restarted")))
    truth: dict[tuple[bytes, int], list[int]] = {}
    for key, what in steps:
        if isinstance(what, list):
            one.write(key, msgspec.json.encode([{"ts": ts, "v": v} for ts, v in what]))
            for ts, v in what:
                truth.setdefault((key, ts), []).append(v)
        elif what == "delete":
            one.write(key, encode_operation(Delete(0, 1)))
            truth = {at: values for at, values in truth.items() if at[0] != key or at[1] > 1}
        elif what == "flush":
            one.stored.flush()
        elif what == "restart":
            one.open()
        else:
            with (
                mock.patch.object(one.stored.delta, "commit", side_effect=OSError("no room")),
                suppress(OSError),
            ):
                one.stored.flush()
            one.open()
        kept = sorted((at.decode(), ts, v) for (at, ts), values in truth.items() for v in values[:-1])
        assert one.versions() == kept


def test_files_of_what_was_written_over_are_put_together(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(superseded_files, "MOST_FILES", 3)
    one = Restarted(tmp_path)
    for number in range(12):
        one.write(b"a", msgspec.json.encode([{"ts": 1, "v": number}]))
        one.stored.flush()
    assert len(list(tmp_path.glob("*/_superseded/*.parquet"))) <= 4
    one.open()
    assert [v for _, _, v in one.versions()] == list(range(11))


def test_what_nobody_counts_any_more_has_no_files(tmp_path: Path) -> None:
    one = Restarted(tmp_path)
    for number in range(2):
        one.write(b"a", msgspec.json.encode([{"ts": 1, "v": number}]))
    one.stored.flush()
    plain = StoredTable(SOURCE, tmp_path, [Child("d", "src", "a", (1,))], 1_000)
    plain.resume({0: 0}, {0: 2})
    plain.advance({0: 3})
    plain.flush()
    assert not list(tmp_path.glob("*/_superseded"))


def test_what_was_written_over_leaves_with_the_rows_that_are_older_than_keep(tmp_path: Path) -> None:
    """Also from its files, though nothing is written any more."""
    one, minute = Restarted(tmp_path), 60_000
    for number in range(2):
        for ts in (0, 3 * minute):
            one.write(b"a", msgspec.json.encode([{"ts": ts, "v": number}]))
    one.stored.flush()
    assert one.versions() == [("a", 0, 0), ("a", 3 * minute, 0)]
    one.stored.expire(1, 3 * minute * 1_000_000)
    assert one.versions() == [("a", 3 * minute, 0)]
    one.open()
    assert one.versions() == [("a", 3 * minute, 0)]


def test_what_was_written_over_gets_the_columns_of_an_altered_table(tmp_path: Path) -> None:
    one = Restarted(tmp_path)
    for number in range(2):
        one.write(b"a", msgspec.json.encode([{"ts": 1, "v": number}]))
    one.stored.evolve(msgspec.structs.replace(SOURCE, columns=(*SOURCE.columns, Column("w", INT))))
    assert one.versions() == [("a", 1, 0, None)]


def test_no_more_are_kept_than_there_is_room_for() -> None:
    kept = Superseded(most=10)
    for number in range(40):
        frame = pl.DataFrame({"ts": [number, number], "v": [1, 2]})
        place = np.arange(2, dtype=np.int64)
        kept.add_doubles(np.zeros(2, dtype=np.int32), frame, place, None)
    assert sum(map(len, kept.runs)) <= 10
    assert max(int(run.ts.max()) for run in kept.runs) == 39
