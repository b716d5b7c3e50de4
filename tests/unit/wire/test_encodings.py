"""Messages in JSON and Arrow, mixed as they come, are the same to who triggers and to who stores."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Field
from millrace_core.model.schema import Child, Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.store.family import Family
from millrace_core.store.intake import Intake
from millrace_core.store.place import nowhere
from millrace_core.store.rows import TableRows
from millrace_core.trigger.rows import Messages, Signal, read
from millrace_core.wire.operations import Delete, Drop, encode_operation
from millrace_core.wire.rows.arrow import encode_frame
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import wal_topic

from ...conftest import examples

TYPES = {"ts": pl.Int64, "v": pl.Int32, "s": pl.String}
TABLE = Table(
    "d", "meters", "super", 7, "ms",
    (Column("ts", TIMESTAMP), Column("v", DataType("INT")), Column("s", DataType("VARCHAR", 4))),
    (Column("k", DataType("INT")),),
)  # fmt: skip
KEYS = [b"c0", b"c1", b"nobody"]
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "ts": st.integers(0, 6),
    "v": st.none() | st.integers(0, 9),
    "s": st.none() | st.sampled_from(["", "a", "äö", "too long"]),
}
OPERATIONS = [encode_operation(operation) for operation in (Delete(2, 4), Drop())]


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """The key of a message, and its value in each encoding; or what is no row, in one."""
    key = draw(st.sampled_from(KEYS))
    if draw(st.integers(0, 5)) == 0:
        return key, [draw(st.sampled_from([*OPERATIONS, b"{", b'{"tags":{"k":3},"rows":[{"ts":5}]}']))]
    names = ["ts", *draw(st.lists(st.sampled_from(["v", "s"]), unique=True))]
    rows = draw(st.lists(st.fixed_dictionaries({n: CELLS[n] for n in names}), min_size=1, max_size=4))
    cells = {n: [row[n] for row in rows] for n in names}
    frame = pl.DataFrame(cells, schema={n: TYPES[n] for n in names})
    return key, [encode_frame(frame), encode_rows(rows), json.dumps(cells).encode()]


mixture = st.lists(st.tuples(messages(), st.integers(0, 2)), max_size=6)
Mixture = list[tuple[tuple[bytes, list[bytes]], int]]


def chosen(found: Mixture, plain: bool) -> tuple[list[bytes | None], list[bytes | None]]:
    """Keys and values, each value as it was chosen; ``plain``: all in JSON rows."""
    values: list[bytes | None] = [v[(1 if plain else choice) % len(v)] for (_, v), choice in found]
    return [key for (key, _), _ in found], values


def judged(keys: list[bytes | None], values: list[bytes | None]) -> list[Any]:
    """What a slot sees of the messages."""
    signals = [Signal(name, Field(name)) for name in ("v", "s")]
    topic = wal_topic(TABLE.db, TABLE.name)
    places = range(len(keys))
    records = [(topic, 0, at, at, key, value) for at, key, value in zip(places, keys, values, strict=True)]
    rows = read(TABLE, Messages.of(records), signals)
    cells = [rows.signals[signal].tolist() for signal in signals]
    return [rows.ts.tolist(), rows.message.tolist(), cells, rows.operations, rows.bad]


def stored(keys: list[bytes | None], values: list[bytes | None]) -> list[Any]:
    """What the table store holds after the messages, and what it refused."""
    family = Family(TABLE)
    for name in ("c0", "c1"):
        family.register(Child("d", "meters", name, (1,)))
    rows = TableRows(TABLE)
    intake, places = Intake(family, rows), nowhere(len(keys))
    taken = intake.apply(keys, intake.decode(values, places), places)
    frame, child = rows.slices().within(-(2**63), 2**63 - 1)
    refused = sorted((bad.index, bad.error.code.name) for bad in taken.bad)
    return [frame.rows(), child.tolist(), taken.rows, taken.children, refused]


@settings(max_examples=examples(100))
@given(mixture)
def test_a_slot_judges_the_same_rows(found: Mixture) -> None:
    assert judged(*chosen(found, plain=False)) == judged(*chosen(found, plain=True))


@settings(max_examples=examples(100))
@given(mixture)
def test_the_store_holds_the_same_rows(found: Mixture) -> None:
    assert stored(*chosen(found, plain=False)) == stored(*chosen(found, plain=True))


def test_later_messages_win_whatever_they_are_written_in() -> None:
    json_row = b'{"ts":1,"v":%d}'
    arrow = encode_frame(pl.DataFrame({"ts": [1], "v": [5]}, schema={"ts": pl.Int64, "v": pl.Int32}))
    for values, last in (
        ([json_row % 4, arrow], 5),
        ([arrow, json_row % 4], 4),
        ([arrow, encode_operation(Delete(0, 9)), json_row % 6], 6),
    ):
        frame, *_ = stored([b"c0"] * len(values), values)
        assert [row[1] for row in frame] == [last]
