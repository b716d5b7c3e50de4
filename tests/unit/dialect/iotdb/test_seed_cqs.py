"""The seed's continuous queries over the seed's rows: each run, and what is stored in the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.dialect.iotdb.conftest import AT, NAMES, SEED, Plant, rows
from tests.unit.dialect.iotdb.test_parser import CQS

from millrace_core.dialect.iotdb import parse
from millrace_core.dialect.iotdb.schema import Schema
from millrace_core.dialect.iotdb.select.into import goals
from millrace_core.dialect.iotdb.select.lower import lower
from millrace_core.dialect.iotdb.statements import CreateCq
from millrace_core.dialect.iotdb.times import TimeContext
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline.continuous import Turns, span

SEE = AT + 40_000  # 22:18:40+08:00, when the seed looks first
LAST = AT + 60_000  # 22:19:00+08:00
STORED = f"SELECT temperature_max FROM {', '.join(NAMES)}"
TENS: dict[int, tuple[Any, ...]] = {
    0: (None, None, None, None), 10: (121, 72, 183, 115), 20: (122, 45, 59, 181), 30: (182, 113, 52, 180),
    40: (137, 172, 135, 193), 50: (16, 124, 183, 18),
}  # fmt: skip
"""The groups of 10 s, by their start in seconds after 22:18:00."""


def statement(name: str) -> CreateCq:
    """The seed's text. The order in which ``root.ln.*.*`` gives its series is left open there, and by name
    here: FROM is written out where targets follow that order."""
    text = CQS[name]
    if name != "cq5":
        text = text.replace("root.ln.*.*", ", ".join(NAMES))
    found = parse(text)
    assert isinstance(found, CreateCq)
    return found


def run(plant: Plant, made: CreateCq, until: int) -> list[tuple[int, tuple[int, int]]]:
    """Create the query at 22:18:40 and run it on time; the instants and ranges of its runs."""
    assert isinstance(made.boundary, int)
    query = ContinuousQuery(
        made.name, 1, made.text, "root", "UTC", SEE, made.every, made.boundary, made.start, made.end,
        made.discard,
    )  # fmt: skip
    turns, ran = Turns(), []
    turns.enter(query)
    while (now := turns.next_at()) is not None and now <= until:
        one = turns.take(now)
        assert one is not None
        plant.into(made.select, span=span(query, one.instant))
        ran.append((one.instant - AT, tuple(t - AT for t in span(query, one.instant))))
        turns.succeeded(one, now)
    return ran  # type: ignore[return-value]


def tens(*seconds: int) -> list[tuple[Any, ...]]:
    return [(AT + at * 1000, *TENS[at]) for at in seconds]


def test_cq1_computes_each_range_once(seed: Plant) -> None:
    assert run(seed, statement("cq1"), LAST) == [(40_000, (20_000, 40_000)), (60_000, (40_000, 60_000))]
    assert rows(seed(STORED)) == tens(20, 30, 40, 50)


def test_cq2_computes_again_and_writes_no_row_of_nulls(seed: Plant) -> None:
    assert run(seed, statement("cq2"), LAST) == [
        (40_000, (0, 40_000)), (50_000, (10_000, 50_000)), (60_000, (20_000, 60_000)),
    ]  # fmt: skip
    assert rows(seed(STORED)) == tens(10, 20, 30, 40, 50)


def test_cq3_fills(seed: Plant) -> None:
    assert run(seed, statement("cq3"), LAST) == [(40_000, (0, 40_000)), (60_000, (20_000, 60_000))]
    assert rows(seed(STORED)) == [(AT, 100, 100, 100, 100), *tens(10, 20, 30, 40, 50)]


def test_cq4_is_20_s_late(seed: Plant) -> None:
    assert run(seed, statement("cq4"), LAST) == [(40_000, (0, 20_000)), (60_000, (20_000, 40_000))]
    assert rows(seed(STORED)) == [(AT, 100, 100, 100, 100), *tens(10, 20, 30)]


def test_cq5_copies_to_another_database(seed: Plant) -> None:
    """42 + 1 is 43: the seed's 45.0 is a slip."""
    assert run(seed, statement("cq5"), LAST) == [(40_000, (20_000, 40_000)), (60_000, (40_000, 60_000))]
    found = seed("SELECT temperature FROM root.precalculated_sg.*.* align by device")
    expected = [
        (name.replace("root.ln", "root.precalculated_sg"), AT + row[0], row[place] + 1.0)
        for name, place in sorted((name, place) for place, name in enumerate(NAMES, 1))
        for row in SEED
        if row[0] >= 20_000
    ]
    assert rows(found) == expected
    assert len(expected) == 28


def test_the_stand_in_for_a_nested_query() -> None:
    """s1_count_cq, and avg over what it writes."""
    plant = Plant()
    plant.database("root.sg")
    half = 1_800_000
    at = SEE // half * half
    plant.write("root.sg.d", [{"time": at + n * 1000, "s1": 1} for n in range(4)], s1="INT32")
    plant.write("root.sg.d", [{"time": at + half + n * 1000, "s1": 1} for n in range(10)], s1="INT32")
    made = statement("s1_count_cq")
    assert len(run(plant, made, at + 2 * half)) == 2
    assert rows(plant("SELECT avg(count_s1) from root.sg_count.d")) == [(7.0,)]


@pytest.mark.parametrize("name", ["cq1", "cq2", "cq3", "cq4"])
def test_wildcards_give_series_by_name(seed: Plant, name: str) -> None:
    """The seed's own text pairs the first target with what is first by name."""
    made = parse(CQS[name])
    assert isinstance(made, CreateCq)
    schema = Schema(seed.catalog)
    query = lower(made.select, schema, TimeContext(0), span=(AT, LAST))
    sources = [column.bound[0].device.name for column in query.columns]
    assert sources == sorted(NAMES)
    assert [goal.path for goal in goals(query, schema)] == [f"{one}.temperature_max" for one in NAMES]
