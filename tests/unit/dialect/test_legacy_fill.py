"""FILL in a stream of the older dialect: a second query over whole stretches of windows."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType

INT = DataType("INT")
COUNTED = "SELECT _wstart AS ws, count(*) AS n FROM st PARTITION BY tbname INTERVAL(10s)"


def stream(query: str) -> StreamSpec:
    catalog = Catalog()
    columns = (Column("ts", TIMESTAMP), Column("v", INT))
    for record in (Database("d", "ms"), Table("d", "st", "super", 3, "ms", columns, (Column("k", INT),))):
        catalog.apply(key_of(record), encode(record))
    front = FRONT_ENDS["tdengine"]
    return front.lower(front.parse(f"CREATE STREAM s INTO o AS {query}"), catalog, "d", "UTC")


@pytest.mark.parametrize(("fill", "window", "clause"), [
    ("VALUE, 0, 1", "INTERVAL(1s)", "INTERVAL(1s) SLIDING(1s) FILL(VALUE, 0, 1)"),
    ("prev", "INTERVAL(1m, 5s) SLIDING(20s)", "INTERVAL(1m, 5s) SLIDING(20s) FILL(PREV)"),
    ("NEXT", "INTERVAL(1d, 2h)", "INTERVAL(1d, 2h) SLIDING(1d) FILL(NEXT)"),
    ("LINEAR", "INTERVAL(1w, 1D) SLIDING(2d)", "INTERVAL(1w, 1D) SLIDING(2d) FILL(LINEAR)"),
    ("PREV", "INTERVAL(1w, 1D) SLIDING(36h)", "INTERVAL(168h, 24h) SLIDING(36h) FILL(PREV)"),
    ("NULL_F", "INTERVAL(1s)", "INTERVAL(1s) SLIDING(1s) FILL(NULL)"),
])  # fmt: skip
def test_fill_is_a_second_query_over_a_stretch_of_windows(fill: str, window: str, clause: str) -> None:
    query = f"SELECT count(*) AS n, sum(v) FROM st PARTITION BY tbname {window} FILL({fill})"
    spec = stream(query)
    assert spec.filled == f"SELECT _wstart, count(*) AS `n`, sum(v) FROM %%trows {clause}"
    assert spec.query == "SELECT _twstart AS `_wstart`, count(*) AS `n`, sum(v) FROM %%trows"


@pytest.mark.parametrize("query", [COUNTED, f"{COUNTED} FILL(NONE)"])
def test_without_fill_there_is_one_query(query: str) -> None:
    spec = stream(query)
    assert (spec.emission.fill, spec.filled) == (None, None)
