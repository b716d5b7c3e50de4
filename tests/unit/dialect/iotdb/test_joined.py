"""WHERE on values where devices are aligned by time: judged over all of them together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.dialect.iotdb.conftest import Plant, rows

from millrace_core.dialect.iotdb.codes import IotdbError, Status


@pytest.fixture
def plant() -> Plant:
    made = Plant()
    made.database("root.p")
    made.write("root.p.d1", [{"time": 10 * t, "v": t, "s": f"x{t}"} for t in range(6)], v="INT32", s="TEXT")
    made.write("root.p.d2", [{"time": 20 * t, "v": 10 - t} for t in range(4)], v="INT32")
    made.database("root.q")
    made.write("root.q.e", [{"time": 20, "on": True}, {"time": 40, "on": False}], on="BOOLEAN")
    return made


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # d1 has v at 0, 10 … 50; d2 has 10 at 0, 9 at 20, 8 at 40, 7 at 60
        ("v FROM root.p.d1, root.p.d2 WHERE v > 1", [(20, 2, 9), (40, 4, 8)]),
        ("v FROM root.p.* WHERE v > 1 AND time < 30", [(20, 2, 9)]),
        ("v FROM root.p.d1 WHERE root.p.d2.v < 10", [(20, 2), (40, 4)]),
        ("d1.v FROM root.p WHERE d2.v < 10", [(20, 2), (40, 4)]),
        ("d1.v, d2.v FROM root.p WHERE d1.v = 1 OR d2.v = 7", [(10, 1, None), (60, None, 7)]),
        ("d1.v FROM root.p WHERE d2.v IS NULL", [(10, 1), (30, 3), (50, 5)]),
        ("d1.v FROM root.p WHERE *.v > 3", [(40, 4)]),
        ("p.d1.v FROM root WHERE q.e.on = false", [(40, 4)]),
        ("d1.v FROM root.p WHERE d2.v > 0 AND d1.s IN ('x2', 'x3')", [(20, 2)]),
        ("d1.v FROM root.p WHERE d2.v > 0 AND d1.s LIKE 'x_' AND NOT (d1.s REGEXP '[02]')", [(40, 4)]),
        ("d1.v FROM root.p WHERE d2.v BETWEEN 8 AND 9 ORDER BY TIME DESC LIMIT 1", [(40, 4)]),
        ("d1.v FROM root.p WHERE d2.none > 0", []),
        ("count(v), sum(v) FROM root.p.d1, root.p.d2 WHERE v > 1", [(2, 2, 6.0, 17.0)]),
        ("count(d1.v) FROM root.p WHERE d2.v > 8 GROUP BY([0, 60), 20ms)", [(0, 1), (20, 1), (40, 0)]),
        ("avg(d1.v), max_time(d1.v), last_value(d1.s) FROM root.p WHERE d2.v > 0 "
         "GROUP BY([0, 60), 40ms, 20ms)", [(0, 1.0, 20, "x2"), (20, 3.0, 40, "x4"), (40, 4.0, 40, "x4")]),
        ("spread(d1.v), extreme(d1.v), first_value(d1.v), min_value(d1.v) FROM root.p WHERE d2.v < 10",
         [(2.0, 4, 2, 2)]),
        ("count(v) FROM root.p.* WHERE v > 1 GROUP BY LEVEL = 1", [(4,)]),
        ("count(d1.v) FROM root.p WHERE d2.v > 100", [(0,)]),
    ],
)  # fmt: skip
def test_what_it_gives(plant: Plant, sql: str, expected: Any) -> None:
    assert rows(plant(f"SELECT {sql}")) == expected


def test_too_many_combinations_are_refused(plant: Plant) -> None:
    for number in range(101):
        plant.series(f"root.p.x{number}", {"a": "DOUBLE", "b": "DOUBLE"})
    with pytest.raises(IotdbError, match=r"10201 combinations of series.*ALIGN BY DEVICE"):
        plant("SELECT a FROM root.p.* WHERE a > 1 OR b > 1")


def test_patterns_take_no_longer_than_their_text(plant: Plant) -> None:
    """A pattern over which Python's own would think for years; one that is none says so."""
    plant.write("root.p.d1", [{"time": 0, "s": "a" * 60}], s="TEXT")
    text = "SELECT d1.v FROM root.p WHERE d2.v > 0 AND d1.s {} '{}'"
    assert rows(plant(text.format("REGEXP", "^(a+)+$"))) == [(0, 0)]
    assert rows(plant(text.format("REGEXP", "^(a|a)*b"))) == []
    assert rows(plant(text.format("LIKE", "%a" * 25 + "%b"))) == []
    with pytest.raises(IotdbError, match="not a valid regular expression") as caught:
        plant(text.format("REGEXP", "["))
    assert caught.value.status is Status.SEMANTIC_ERROR


cells = st.one_of(st.none(), st.integers(0, 3))


@given(a=st.lists(cells, max_size=8), b=st.lists(cells, max_size=8), least=st.integers(0, 3))
def test_what_is_judged_together_is_judged_as_in_plain_python(
    a: list[int | None], b: list[int | None], least: int
) -> None:
    made = Plant()
    made.database("root.p")
    for name, values in (("root.p.a", a), ("root.p.b", b)):
        made.series(name, {"v": "INT32"})
        told = [{"time": 10 * at, "v": value} for at, value in enumerate(values) if value is not None]
        made.write(name, told, v="INT32")
    both = [
        (10 * at, x, y)
        for at, (x, y) in enumerate(zip(a, b, strict=False))
        if x is not None and y is not None and x >= least and y >= least
    ]
    assert rows(made(f"SELECT v FROM root.p.a, root.p.b WHERE v >= {least}")) == both
    total = sum(x for _, x, _ in both) if both else None
    found = rows(made(f"SELECT count(v), sum(v) FROM root.p.a, root.p.b WHERE v >= {least}"))
    assert found == [(len(both), len(both), total, sum(y for _, _, y in both) if both else None)]
