"""CREATE STREAM of the older dialect, and EXPLAIN CREATE STREAM of either."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.errors import ErrorCode, Position

NEWER = (
    "CREATE STREAM s1 INTERVAL(10s) SLIDING(10s) FROM meters PARTITION BY tbname INTO out1 "
    "AS SELECT _twstart, count(*), avg(amps) FROM %%trows"
)
QUERY = "SELECT _wstart, count(*) AS n FROM meters PARTITION BY tbname INTERVAL(10s)"
OLDER = f"TRIGGER AT_ONCE INTO older AS {QUERY}"


@pytest.fixture
def meters(rig: Any) -> Any:
    rig("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT) TAGS (site INT)")
    rig("CREATE TABLE m1 USING meters TAGS (1)")
    return rig


def test_a_stream_of_the_older_dialect_is_refused_as_a_whole(meters: Any) -> None:
    error = meters.refused(f"CREATE STREAM s9 {OLDER}")
    assert (error.code, error.position) == (ErrorCode.UNSUPPORTED, Position(1, 15))
    assert "EXPLAIN CREATE STREAM" in error.message
    assert ("d", "older") not in meters.gateway.context.catalog.tables
    assert meters("SHOW STREAMS").rows == []
    wrong = meters.refused(f"CREATE STREAM s9 {OLDER.replace('count(*)', 'mode(amps)')}")
    assert (wrong.code, "mode is not possible" in wrong.message) == (ErrorCode.BAD_STREAM, True)
    number = OLDER.replace("INTO older", "INTO older SUBTABLE(site)").replace("tbname", "tbname, site")
    assert meters.refused(f"CREATE STREAM s9 {number}").code is ErrorCode.TYPE_MISMATCH


@pytest.mark.parametrize("sql", [f"CREATE STREAM s9 {OLDER}", NEWER])
def test_explain_tells_what_a_stream_was_understood_to_be(meters: Any, sql: str) -> None:
    answer = meters(f"EXPLAIN {sql}")
    assert [column.name for column in answer.columns] == ["item", "value"]
    facts = dict(answer.rows)
    assert facts["dialect"] == ("older" if "AT_ONCE" in sql else "newer")
    assert (
        facts["trigger"] in ("INTERVAL(1s) SLIDING(1s)", "INTERVAL(10s) SLIDING(10s)")
        and facts["source"] == "d.meters"
    )
    again = meters(f"EXPLAIN {facts['statement']}")
    assert dict(again.rows)["query"] == facts["query"]
    assert meters("SHOW STREAMS").rows == []
