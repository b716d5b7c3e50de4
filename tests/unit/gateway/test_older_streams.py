"""CREATE STREAM of the older dialect, and EXPLAIN CREATE STREAM of either."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.wire import control

from .conftest import NOW

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


CLOSING = OLDER.replace("TRIGGER AT_ONCE ", "")


@pytest.fixture
def older(meters: Any) -> Any:
    meters.calc.describes(("_wstart", "TIMESTAMP"), ("n", "BIGINT"))
    meters(f"CREATE STREAM s9 {CLOSING}", "d")
    return meters


def listed(rig: Any, sql: str = "SHOW STREAMS", db: str | None = None) -> list[tuple[Any, ...]]:
    answer = rig(sql, db)
    names = [column.name for column in answer.columns]
    return [(row[names.index("stream_name")], row[names.index("status")]) for row in answer.rows]


def test_a_stream_has_a_global_name_and_its_result_table_from_the_first(older: Any) -> None:
    catalog = older.gateway.context.catalog
    entry = catalog.streams["", "s9"]
    assert (entry.spec.full_name, entry.spec.home, entry.wanted) == ("s9", "d", "Running")
    table = catalog.tables["d", "older"]
    assert [column.name for column in table.columns] == ["_wstart", "n"]
    assert [tag.name for tag in table.tags] == ["groupid"]
    assert [type(record) for record in older.controls()] == [control.DefineStream]
    older(f"CREATE STREAM IF NOT EXISTS s9 {CLOSING}")
    again = older.refused(f"CREATE STREAM s9 {CLOSING.replace('older', 'other')}")
    assert (again.code, again.position) == (ErrorCode.STREAM_EXISTS, Position(1, 15))


def test_streams_of_both_dialects_are_listed_in_their_own_words(older: Any) -> None:
    older.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"), ("avg(amps)", "DOUBLE"))
    older(NEWER)
    assert listed(older, db="d") == [("s1", "Running"), ("s9", "ready")]
    assert listed(older) == [("s9", "ready")], "newer streams are those of the session's database"
    assert listed(older, "SHOW d.STREAMS") == [("s1", "Running")]
    answer = older("SHOW STREAMS LIKE 's9'")
    row = dict(zip([column.name for column in answer.columns], answer.rows[0], strict=True))
    assert (row["source_db"], row["target_db"], row["target_table"]) == ("d", "d", "older")
    assert (row["watermark"], row["trigger"]) == ("0s", "window close")


def test_pause_and_resume(older: Any) -> None:
    for _ in range(2):
        older("PAUSE STREAM s9", None)
    assert listed(older) == [("s9", "paused")]
    for _ in range(2):
        older("RESUME STREAM IF EXISTS s9", None)
    assert listed(older) == [("s9", "ready")]
    older("PAUSE STREAM IF EXISTS s9")
    older("RESUME STREAM IGNORE UNTREATED s9")
    records = older.controls()[1:]
    assert [type(record) for record in records] == [control.StopStream, control.StartStream] * 2
    # what was written meanwhile is treated, though the stream fills no history
    assert [record.untreated for record in records[1::2]] == [True, False]
    older("PAUSE STREAM IF EXISTS nope", None)
    older("RESUME STREAM IF EXISTS nope", None)
    for word in ("PAUSE", "RESUME"):
        for db in ("d", None):
            refused = older.refused(f"{word} STREAM nope", db)
            assert (refused.code, refused.message) == (
                ErrorCode.UNKNOWN_STREAM, "the stream nope does not exist",
            )  # fmt: skip
        assert older.refused(f"{word} STREAM d.nope", None).code is ErrorCode.UNKNOWN_STREAM
        assert older.refused(f"{word} STREAM none.nope", None).code is ErrorCode.UNKNOWN_DATABASE


def test_what_was_written_during_a_pause_is_left_out_where_resume_says_so(older: Any) -> None:
    def skipped() -> Any:
        return older.gateway.context.catalog.streams["", "s9"].skipped

    older("INSERT INTO m1 VALUES (1, 1)")
    older("PAUSE STREAM s9")
    older("INSERT INTO m1 VALUES (2, 1) (3, 1)")
    older("RESUME STREAM s9")
    assert skipped() == ()
    older("PAUSE STREAM s9")
    older("RESUME STREAM IGNORE UNTREATED s9")
    assert skipped() == (), "nothing was written meanwhile"
    older("PAUSE STREAM s9")
    older("INSERT INTO m1 VALUES (4, 1)")
    older("RESUME STREAM IGNORE UNTREATED s9")
    ((_, first, end),) = skipped()
    assert end == first + 1
    older("PAUSE STREAM s9")
    older("RESUME STREAM s9")
    assert skipped() == ((_, first, end),), "what was left out stays out"


def test_each_dialect_has_its_own_words_for_stopping_and_starting(older: Any) -> None:
    older.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"), ("avg(amps)", "DOUBLE"))
    older(NEWER)
    for sql, right in (
        ("STOP STREAM s9", "PAUSE STREAM s9"), ("START STREAM s9", "RESUME STREAM s9"),
        ("RECALCULATE STREAM s9 FROM 0", "supports PAUSE and RESUME"),
        ("PAUSE STREAM s1", "STOP STREAM d.s1"), ("RESUME STREAM d.s1", "START STREAM d.s1"),
    ):  # fmt: skip
        error = older.refused(sql)
        assert (error.code, right in error.message) == (ErrorCode.NOT_ALLOWED, True), error
        assert error.position is not None


def test_a_bare_name_is_the_global_one_first_where_it_is_dropped(older: Any) -> None:
    older.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"), ("avg(amps)", "DOUBLE"))
    older(NEWER.replace("STREAM s1", "STREAM s9"))
    older("STOP STREAM s9")
    older("DROP STREAM s9")
    assert listed(older, db="d") == [("s9", "Stopped")]
    older("DROP STREAM s9")
    assert listed(older, db="d") == []
    older("DROP STREAM IF EXISTS s9", None)
    assert ("d", "older") in older.gateway.context.catalog.tables


def test_a_stream_made_in_the_background_is_not_waited_for(meters: Any) -> None:
    meters.calc.describes(("_wstart", "TIMESTAMP"), ("n", "BIGINT"))
    with meters.trigger.busy:
        meters(f"CREATE STREAM s9 FILL_HISTORY 1 ASYNC {CLOSING}")
        assert listed(meters) == [("s9", "init")]


def test_a_stream_whose_results_no_table_can_have_is_refused_as_a_whole(meters: Any) -> None:
    meters.calc.describes(("_wstart", "TIMESTAMP"), ("n", "JSON"))
    error = meters.refused(f"CREATE STREAM s9 {CLOSING}")
    assert (error.code, "n is JSON" in error.message) == (ErrorCode.BAD_STREAM, True)
    assert error.position == Position(1, f"CREATE STREAM s9 {CLOSING}".index("count(*)") + 1)
    assert ("d", "older") not in meters.gateway.context.catalog.tables
    assert meters("SHOW STREAMS").rows == []


def test_a_wrong_stream_of_the_older_dialect_is_refused_where_it_is_wrong(meters: Any) -> None:
    wrong = meters.refused(f"CREATE STREAM s9 {OLDER.replace('count(*)', 'mode(amps)')}")
    assert (wrong.code, "mode is not supported" in wrong.message) == (ErrorCode.BAD_STREAM, True)
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


# -- what a stream holds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "points_at"), [
    ("DROP STABLE meters", "meters"), ("DROP TABLE meters", "meters"), ("DROP STABLE older", "older"),
    ("ALTER STABLE meters DROP COLUMN amps", "amps"), ("ALTER STABLE older DROP COLUMN n", "n"),
    ("ALTER STABLE meters DROP TAG site", "site"),
])  # fmt: skip
def test_a_stream_holds_its_tables_and_columns(older: Any, sql: str, points_at: str) -> None:
    older("ALTER STABLE meters ADD COLUMN volts INT")
    older("ALTER STABLE meters ADD TAG room INT")
    older("ALTER STABLE older ADD COLUMN more INT")
    older.calc.describes(("_wstart", "TIMESTAMP"), ("n", "BIGINT"))
    older("CREATE STREAM s8 INTO mean TAGS (site INT) AS SELECT _wstart, count(amps) AS n FROM meters "
          "PARTITION BY tbname, site INTERVAL(10s)")  # fmt: skip
    error = older.refused(sql)
    assert error.code is ErrorCode.HELD_BY_STREAM
    assert error.position == Position(1, sql.rindex(points_at) + 1)


def test_what_no_stream_uses_goes(older: Any) -> None:
    older("ALTER STABLE meters ADD COLUMN volts INT")
    older("ALTER STABLE meters DROP COLUMN volts")
    older("DROP TABLE m1")
    older("DROP STREAM s9")
    older("DROP STABLE older")
    older("DROP STABLE meters")


def test_a_database_goes_with_streams_that_are_all_in_it(older: Any) -> None:
    older("CREATE DATABASE e")
    older(f"CREATE STREAM far {CLOSING.replace('INTO older', 'INTO e.far')}")
    for db in ("d", "e"):
        error = older.refused(f"DROP DATABASE {db}")
        assert (error.code, error.position) == (ErrorCode.HELD_BY_STREAM, Position(1, 15))
    older("DROP STREAM far")
    older("DROP DATABASE d")
    assert listed(older) == []
    older("DROP DATABASE e", None)


def test_who_may_write_where_the_results_are_may_pause(older: Any) -> None:
    older("CREATE USER reader PASS 'Secret_123'", None)
    older("GRANT read ON d.* TO reader", None)

    def run(sql: str) -> Any:
        return older.gateway.executor.execute(Session("reader", None, "UTC", NOW), sql)

    assert [row[0] for row in run("SHOW STREAMS").rows] == ["s9"]
    with pytest.raises(MillraceError, match="privilege to write on the database d"):
        run("PAUSE STREAM s9")
    older("GRANT write ON d.* TO reader", None)
    run("PAUSE STREAM s9")


def test_a_stream_needs_no_snode(meters: Any) -> None:
    meters("CREATE SNODE ON DNODE 1")
    meters.calc.describes(("_wstart", "TIMESTAMP"), ("n", "BIGINT"))
    meters(f"CREATE STREAM s9 {CLOSING}")
    meters("DROP SNODE ON DNODE 1")
