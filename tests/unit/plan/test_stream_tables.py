"""What information_schema tells of streams: counters, tasks, recalculations."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from millrace_core.catalog import Catalog, StreamEntry, encode, key_of
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.plan import News, plan_query, system_rows
from millrace_core.wire.counters import BY_NAME, COUNTERS
from millrace_core.wire.status import Counters, QueryRuns, Recalculation

MS = 1_000_000
RUNNING = {("d", "s"): ("Running", "")}


@pytest.fixture
def entry(kit: Any) -> StreamEntry:
    return StreamEntry(kit.make_spec("SELECT 1"), "Running", 1, 1)


@pytest.fixture
def catalog(kit: Any, entry: StreamEntry) -> Catalog:
    found: Catalog = kit.make_catalog()
    found.apply(key_of(entry), encode(entry))
    return found


def counted(entry: StreamEntry) -> list[Counters]:
    uid = entry.spec.uid
    return [
        Counters("trigger-svc", uid, 4, {
            "started": 7 * MS, "rows_read": 10, "rows_used": 6, "late": 2, "expired": 1, "filtered": 1,
            "events_sent": 5, "last_trigger": 900 * MS,
        }),
        Counters("trigger-svc", uid, 2, {"started": 5 * MS, "rows_read": 3, "rows_used": 3, "events_sent": 2,
                                         "recalculated": 3, "last_trigger": 800 * MS}),
        Counters("calc-svc", uid, 1, {"started": 20 * MS, "events_taken": 6, "calculations": 5, "failures": 1,
                                      "result_rows": 40, "null_key": 3, "last_calculated": 950 * MS},
                 "host:1", 77),
        Counters("notify-svc", uid, 0, {"notify_delivered": 8, "notify_full": 1, "notify_unreached": 2}),
        Counters("calc-recalc", uid, 3, {"requests_answered": 2, "rows_read_again": 50}, "host:1"),
        Counters("calc-svc", uid + 1, 1, {"events_taken": 1_000}),
    ]  # fmt: skip


def test_ins_streams_sums_up(catalog: Catalog, entry: StreamEntry) -> None:
    news = News(RUNNING, counters=counted(entry), behind={entry.spec.uid: 12})
    (row,) = system_rows("ins_streams", catalog, news).to_dicts()
    assert {name: row[name] for name in (
        "rows_read", "rows_unused", "events_sent", "events_waiting", "calculations", "failures",
        "result_rows", "rows_dropped", "recalculations", "notify_delivered", "notify_dropped",
        "messages_behind",
    )} == {
        "rows_read": 13, "rows_unused": 4, "events_sent": 7, "events_waiting": 1, "calculations": 5,
        "failures": 1, "result_rows": 40, "rows_dropped": 3, "recalculations": 5, "notify_delivered": 8,
        "notify_dropped": 3, "messages_behind": 12,
    }  # fmt: skip
    moments = system_rows("ins_streams", catalog, news).select(
        pl.col("last_trigger", "last_calculated").cast(pl.Int64)
    )
    assert moments.rows() == [(900, 950)]


def test_continuous_queries_are_listed_with_streams(catalog: Catalog) -> None:
    for uid, name in ((41, "q"), (42, "bad"), (43, "fresh")):
        query = ContinuousQuery(name, uid, f"CREATE CQ {name}", "root", "UTC", 5, 1000, 0, 1000, 0)
        catalog.apply(key_of(query), encode(query))
    runs = [QueryRuns(41, 7000, 8 * MS, 3, 1, 12), QueryRuns(42, None, 9 * MS, 0, 2, 0, "too narrow")]
    found = system_rows("ins_streams", catalog, News(RUNNING, runs=runs)).to_dicts()
    columns = (
        "stream_name",
        "db_name",
        "sql",
        "status",
        "message",
        "calculations",
        "failures",
        "result_rows",
    )
    assert [tuple(row[name] for name in columns) for row in found[1:]] == [
        ("q", None, "CREATE CQ q", "Running", "", 4, 1, 12),
        ("bad", None, "CREATE CQ bad", "Failed", "too narrow", 2, 2, 0),
        ("fresh", None, "CREATE CQ fresh", "Running", "", 0, 0, 0),
    ]


def test_continuous_queries_have_a_table_and_counters_of_their_own(catalog: Catalog) -> None:
    for uid, name in ((41, "q"), (43, "fresh")):
        query = ContinuousQuery(
            name, uid, f"CREATE CQ {name}", "eve", "UTC", 5, 1000, 0, 3000, 2000, name == "q"
        )
        catalog.apply(key_of(query), encode(query))
    told = QueryRuns(41, 7000, 8 * MS, 3, 1, 12, "", 9000, 1, 40)
    rows = system_rows("ins_continuous_queries", catalog, News(RUNNING, runs=[told]), "eve")
    rows = rows.with_columns(pl.col(pl.Datetime).cast(pl.Int64))
    columns = ("state", "timeout_policy", "runs_done", "runs_failed", "runs_skipped", "last_instant",
               "next_instant", "last_took_ms")  # fmt: skip
    assert rows.select(columns).rows() == [
        ("Running", "DISCARD", 3, 1, 1, 7000, 9000, 40),
        ("Running", "BLOCKED", 0, 0, 0, None, 1000, None),
    ]
    counters = system_rows("ins_stream_counters", catalog, News(RUNNING, runs=[told]), "eve")
    assert dict(counters.filter(pl.col("stream_name") == "q").select("counter", "value").rows()) == {
        "calculations": 3, "failures": 1, "result_rows": 12, "last_trigger": 7000 * MS,
        "last_calculated": 8 * MS,
    }  # fmt: skip
    assert not system_rows("ins_continuous_queries", catalog, News(RUNNING, runs=[told]), "bob").rows()


def test_a_stream_of_which_nobody_has_told(catalog: Catalog) -> None:
    (row,) = system_rows("ins_streams", catalog, News(RUNNING)).to_dicts()
    assert (row["rows_read"], row["events_waiting"], row["messages_behind"], row["last_trigger"]) == (
        0, 0, None, None,
    )  # fmt: skip
    told = system_rows("ins_stream_counters", catalog, News(RUNNING))
    assert len(told) == len(COUNTERS)
    moments = {one.name for one in COUNTERS if one.fold != "sum"}
    assert set(told.filter(pl.col("value").is_null())["counter"]) == moments


def test_one_row_per_stream_and_counter(catalog: Catalog, entry: StreamEntry) -> None:
    told = system_rows("ins_stream_counters", catalog, News(RUNNING, counters=counted(entry)))
    assert told["counter"].to_list() == [one.name for one in COUNTERS]
    found = dict(told.select("counter", "value").rows())
    assert (found["rows_read"], found["late"], found["notify_full"], found["out_of_range"]) == (13, 2, 1, 0)
    assert (found["started"], found["last_trigger"]) == (5 * MS, 900 * MS)
    (late,) = told.filter(pl.col("counter") == "late").to_dicts()
    assert (late["stream_name"], late["db_name"], late["unit"], late["kind"]) == ("s", "d", "rows", "unused")
    assert (late["service"], late["meaning"]) == ("trigger-svc", BY_NAME["late"].meaning)


def test_tasks_are_slots_and_partitions(catalog: Catalog, entry: StreamEntry) -> None:
    news = News(RUNNING, counters=counted(entry), instance="spark:9")
    tasks = system_rows("ins_stream_tasks", catalog, news)
    assert tasks.select("type", "task_idx", "status", "instance").rows() == [
        ("Trigger", 2, "Running", "spark:9"), ("Trigger", 4, "Running", "spark:9"),
        ("Runner", 1, "Running", "host:1"), ("Recalculation", 3, "Running", "host:1"),
    ]  # fmt: skip
    assert tasks["task_id"].n_unique() == 4
    times = tasks.select(pl.col("start_time", "last_update").cast(pl.Int64)).rows()
    assert times == [(5, 800), (7, 900), (20, 950), (None, None)]
    assert tasks["extra_info"].to_list()[1:3] == [
        "rows read: 10, events sent: 5", "calculated: 5, rows written: 40, failed: 1",
    ]  # fmt: skip


def test_a_stream_that_has_run_nothing_has_a_task_of_each_type(catalog: Catalog) -> None:
    tasks = system_rows("ins_stream_tasks", catalog, News({("d", "s"): ("Stopped", "")}))
    assert tasks.select("type", "task_idx", "status").rows() == [
        ("Trigger", None, "Stopped"), ("Runner", None, "Stopped"),
    ]  # fmt: skip


def test_a_failure_is_the_task_s_that_failed(catalog: Catalog, entry: StreamEntry) -> None:
    uid = entry.spec.uid

    def of(failures: dict[tuple[int, int | None], str]) -> list[tuple[str, str, str]]:
        news = News({("d", "s"): ("Failed", "no")}, counters=counted(entry), failures=failures)
        tasks = system_rows("ins_stream_tasks", catalog, news)
        found: list[tuple[str, str, str]] = tasks.select("type", "status", "message").rows()
        return found[:3]

    assert of({(uid, None): "no"}) == [
        ("Trigger", "Running", ""), ("Trigger", "Running", ""), ("Runner", "Failed", "no"),
    ]  # fmt: skip
    assert of({(uid, 4): "no"}) == [
        ("Trigger", "Running", ""), ("Trigger", "Failed", "no"), ("Runner", "Running", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("left", "shown"), [(None, None), (12.5, 12.5), (0.0, 0.0)])
def test_the_time_that_a_recalculation_still_takes(
    catalog: Catalog, entry: StreamEntry, left: float | None, shown: float | None
) -> None:
    one = Recalculation(entry.spec.uid, 0, 5, "MANUAL", 0, 9, "Running", 0.25, 40, 3, seconds_left=left)
    (row,) = system_rows("ins_stream_recalculates", catalog, News(recalculations=[one])).to_dicts()
    assert (row["time_left"], row["progress"]) == (shown, "25.0%")
    assert (row["rows_read"], row["events_sent"]) == (40, 3)


def test_counters_can_be_queried(kit: Any) -> None:
    sql = (
        "SELECT counter, value FROM information_schema.ins_stream_counters"
        " WHERE stream_name = 's' AND kind = 'unused' AND value > 0"
    )
    plan = plan_query(sql, None, kit.make_catalog(), "UTC", 0)
    assert [column.name for column in plan.result] == ["counter", "value"]
