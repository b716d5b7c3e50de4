"""Rules of continuous queries that the seed's own examples do not show (SEMANTICS-FRONTENDS, S6)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.dialect.iotdb.conftest import SESSION, Plant, rows

from millrace_core.dialect.iotdb import IotdbError, Status, parse
from millrace_core.dialect.iotdb.statements import CreateCq
from millrace_core.dialect.iotdb.times import resolve
from millrace_core.dialect.iotdb.values import WIDER

NOW = 1_767_225_600_000
SELECT = "SELECT count(v) INTO root.agg.x(n) FROM root.p.d"


def cq(text: str) -> CreateCq:
    found = parse(f"CREATE CQ q {text} END")
    assert isinstance(found, CreateCq)
    return found


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        # EVERY is the interval, not the step; the range is EVERY
        (f"BEGIN {SELECT} GROUP BY(30s, 10s)", (30_000, 30_000, 0)),
        (f"RESAMPLE EVERY 1h BEGIN {SELECT} GROUP BY(30m)", (3_600_000, 3_600_000, 0)),
        # a range that is shorter than EVERY leaves gaps
        (f"RESAMPLE EVERY 1h RANGE 10m, 1m BEGIN {SELECT} GROUP BY(5m)", (3_600_000, 600_000, 60_000)),
        (f"RESAMPLE EVERY 2d3h BEGIN {SELECT}", (183_600_000, 183_600_000, 0)),
        (f"RESAMPLE EVERY 1w BEGIN {SELECT}", (604_800_000, 604_800_000, 0)),
        (f"RESAMPLE EVERY 2000000us RANGE 3000000000ns, 500ms BEGIN {SELECT}", (2000, 3000, 500)),
    ],
)
def test_lengths_and_their_defaults(text: str, lengths: tuple[int, int, int]) -> None:
    made = cq(text)
    assert (made.every, made.start, made.end) == lengths


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        ("", 0), ("BOUNDARY 5000", 5000), ("BOUNDARY -1", -1), ("BOUNDARY now()", NOW),
        ("BOUNDARY now() + 1h30m - 1s", NOW + 5_399_000), ("BOUNDARY 2026-01-01T00:00:01.5Z", NOW + 1500),
        ("BOUNDARY 2026-01-01 01:00:00+01:00", NOW), ("BOUNDARY 2026/01/01", NOW),
        ("BOUNDARY '2026-01-01T00:00:00Z'", NOW),
    ],
)  # fmt: skip
def test_boundary_takes_times_of_all_forms(boundary: str, expected: int) -> None:
    made = cq(f"RESAMPLE EVERY 1h {boundary} BEGIN {SELECT}")
    assert resolve(made.boundary, SESSION) == expected


@pytest.mark.parametrize("policy", ["", "TIMEOUT POLICY BLOCKED", "timeout policy discard"])
def test_the_policy_is_blocked_unless_said_otherwise(policy: str) -> None:
    assert cq(f"RESAMPLE EVERY 1h {policy} BEGIN {SELECT}").discard is ("discard" in policy)


@pytest.mark.parametrize(
    "kind", ["TAGS(x)", "VARIATION(v, 1)", "SESSION(1m)", "CONDITION(v > 1, 1)", "COUNT(v, 5)"]
)
def test_groups_of_other_kinds_are_refused(kind: str) -> None:
    with pytest.raises(IotdbError) as caught:
        cq(f"RESAMPLE EVERY 1h BEGIN {SELECT} GROUP BY {kind}")
    assert caught.value.status is Status.UNSUPPORTED_OPERATION


@pytest.fixture
def plant() -> Plant:
    made = Plant()
    made.database("root.p")
    values = [{"time": 10 * at, "v": at} for at in range(1, 10) if at != 5]
    made.write("root.p.d", values, v="INT32")
    return made


@pytest.mark.parametrize(
    ("sql", "span", "expected"),
    [
        # groups begin where the range does, the last one is cut where it ends
        ("count(v) FROM root.p.d GROUP BY(40ms)", (15, 75), [(15, 3), (55, 2)]),
        ("sum(v) FROM root.p.d GROUP BY(40ms, 25ms)", (15, 75), [(15, 9.0), (40, 17.0), (65, 7.0)]),
        # HAVING comes first: what it leaves out is not there to be filled, and none looks over a range's edge
        ("max_value(v) FROM root.p.d GROUP BY(10ms) HAVING max_value(v) != 4 OR max_value(v) IS NULL "
         "FILL(PREVIOUS)", (30, 70), [(30, 3), (50, 3), (60, 6)]),
        ("max_value(v) FROM root.p.d GROUP BY(10ms) FILL(LINEAR)", (40, 70), [(40, 4), (50, 5), (60, 6)]),
        ("max_value(v) FROM root.p.d GROUP BY(10ms) FILL(PREVIOUS)", (50, 70), [(50, None), (60, 6)]),
        # a constant that does not fit leaves NULL
        ("max_value(v) FROM root.p.d GROUP BY(10ms) FILL(1.5)", (50, 70), [(50, None), (60, 6)]),
        ("count(v) FROM root.p.d GROUP BY(20ms) LIMIT 2 OFFSET 1", (0, 100), [(20, 2), (40, 1)]),
        ("v FROM root.p.d WHERE v > 6", (0, 85), [(70, 7), (80, 8)]),
        ("count(v) FROM root.p.d", (50, 60), [(50, 0)]),
        ("avg(v) FROM root.p.d GROUP BY LEVEL = 1", (0, 40), [(0, 2.0)]),
    ],
)  # fmt: skip
def test_what_a_run_gives(plant: Plant, sql: str, span: tuple[int, int], expected: list[Any]) -> None:
    assert rows(plant(f"SELECT {sql}", span=span)) == expected


def test_into_which_types_results_go() -> None:
    """INT32 into INT64, FLOAT, DOUBLE; INT64 and FLOAT into DOUBLE; TEXT and BOOLEAN into themselves."""
    types = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "TEXT")
    found = {type_: {wide for wide in WIDER[type_] if wide in types} for type_ in types}
    assert found == {
        "BOOLEAN": {"BOOLEAN"}, "INT32": {"INT32", "INT64", "FLOAT", "DOUBLE"}, "INT64": {"INT64", "DOUBLE"},
        "FLOAT": {"FLOAT", "DOUBLE"}, "DOUBLE": {"DOUBLE"}, "TEXT": {"TEXT"},
    }  # fmt: skip
