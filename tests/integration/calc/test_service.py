"""calc-svc as a process: rows and triggers in, results and notices out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import psutil
import pytest

from millrace.java import Java
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Child, Database
from millrace_core.model.stream import Notify, Options
from millrace_core.wire import status, topics
from millrace_core.wire.events import Group, trigger_id
from millrace_core.wire.topics import wal_topic
from millrace_wal import replay

pytestmark = pytest.mark.java

MINUTE = 60_000


@pytest.fixture(scope="module")
def calc(broker: str, java: Java, tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Iterator[Any]:
    service = kit.Calc(broker, java, tmp_path_factory.mktemp("calc"))
    service.log.ensure_topics(topics.TOPICS)
    service.define(Database("power"), kit.METERS, *kit.CHILDREN)
    service.write(kit.METERS, kit.data(kit.CHILDREN, 10))
    service.start()
    yield service
    assert service.stop() == 0
    service.log.close()


def expected(children: list[Child], minutes: int) -> list[tuple[object, ...]]:
    return [
        (child.name, minute * MINUTE, 3, int(child.name[1:]) + minute + 0.5)
        for child in sorted(children, key=lambda c: c.name)
        for minute in range(minutes)
    ]


def test_triggers_become_rows_and_notices(calc: Any, kit: Any) -> None:
    spec = kit.stream(1, kit.QUERY, notify=Notify(("ws://a",), ("WINDOW_CLOSE",)))
    calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(
        spec,
        [
            e
            for child in kit.CHILDREN
            for e in kit.closes(spec, kit.own(child), [m * MINUTE for m in range(10)])
        ],
    )
    kit.eventually(lambda: len(calc.notices("power.s1")) == 200)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out1 ORDER BY tag_tbname, w")
    assert rows == expected(kit.CHILDREN, 10)
    notice = next(n for n in calc.notices("power.s1") if n.group == str(kit.CHILDREN[4].uid))
    assert notice.urls == ("ws://a",)
    assert notice.event["result"] == {"_twstart": 0, "n": 3, "a": 4.5}
    assert notice.event["triggerId"] == trigger_id(1, kit.CHILDREN[4].uid, 0)
    assert str(notice.event["tableName"]).startswith("t_")


def test_one_by_one_gives_the_same_rows(calc: Any, kit: Any) -> None:
    spec = kit.stream(2, kit.QUERY)
    calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    told = 0
    for child in kit.CHILDREN[:3]:
        for event in kit.closes(spec, kit.own(child), [0, MINUTE]):
            calc.fire(spec, [event])
            told += 1
            kit.eventually(lambda: len(calc.notices("power.s2")) == told)  # noqa: B023
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out2 ORDER BY tag_tbname, w")
    assert rows == expected(kit.CHILDREN[:3], 2)


def test_tag_groups_and_no_groups(calc: Any, kit: Any) -> None:
    by_site, whole = kit.stream(3, kit.QUERY, ("site",)), kit.stream(4, kit.QUERY, ())
    named = msgspec.structs.replace(by_site.output, subtable="concat('site_', cast(site AS VARCHAR(8)))")
    by_site = msgspec.structs.replace(by_site, output=named)
    for spec in (by_site, whole):
        calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(
        by_site, [e for s in range(3) for e in kit.closes(by_site, Group(s + 50, (s,), None), [0, MINUTE])]
    )
    calc.fire(whole, kit.closes(whole, Group(0, (), None), [0, MINUTE, 99 * MINUTE]))
    kit.eventually(lambda: len(calc.notices("power.s3")) == 6 and len(calc.notices("power.s4")) == 3)
    rows = calc.rows("SELECT tbname, site, w, n FROM out3 ORDER BY site, w")
    assert rows == [(f"site_{s}", s, m * MINUTE, 18 if s == 2 else 21) for s in range(3) for m in range(2)]
    # over no rows count is 0 and avg is NULL
    assert calc.rows("SELECT w, n, a FROM out4 ORDER BY w") == [
        (0, 60, 10.0), (MINUTE, 60, 11.0), (99 * MINUTE, 0, None),
    ]  # fmt: skip


def test_a_stream_reads_its_rows_from_other_tables_and_own_count(calc: Any, kit: Any) -> None:
    query = (
        "SELECT _twstart, _twrownum n, max(amps) a FROM power.meters"
        " WHERE tbname = %%tbname AND ts >= _twstart AND ts < _twend"
    )
    spec = kit.stream(5, query)
    calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(
        spec, [e for c in kit.CHILDREN[:2] for e in kit.closes(spec, kit.own(c), [0, MINUTE], rownum=-1)]
    )
    kit.eventually(lambda: len(calc.notices("power.s5")) == 4)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out5 ORDER BY tag_tbname, w")
    assert rows == [(c, m * MINUTE, 3, float(int(c[1:]) + m + 1)) for c in ("m0", "m1") for m in range(2)]


def test_openings_notify_and_only_calculate_when_asked(calc: Any, kit: Any) -> None:
    spec = kit.stream(6, "SELECT _twstart, 1 n, 2.0 a", notify=Notify(("ws://a",), ("WINDOW_OPEN",)))
    asked = msgspec.structs.replace(
        kit.stream(7, "SELECT _twstart, 1 n, 2.0 a"), options=Options(event_types=("WINDOW_OPEN",))
    )
    for one in (spec, asked):
        calc.define(kit.output_of(one), StreamEntry(one, "Running", 0, 0))
        calc.fire(one, kit.closes(one, kit.own(kit.CHILDREN[0]), [0], kind="OPEN"))
    kit.eventually(lambda: len(calc.notices("power.s6")) == len(calc.notices("power.s7")) == 1)
    assert "result" not in calc.notices("power.s6")[0].event
    assert calc.notices("power.s7")[0].event["result"] == {"_twstart": 0, "n": 1, "a": 2.0}
    assert calc.rows("SELECT count(*) FROM out6") == [(0,)]
    assert calc.rows("SELECT n FROM out7") == [(1,)]


def _dropped(calc: Any, what: str) -> float:
    """How many events were dropped because there is no such stream or table. Other modules leave events of
    their streams in the topic."""
    counted = re.search(rf'millrace_events_dropped_total{{cause="no such {what}"}} (\S+)', calc.metrics())
    return 0.0 if counted is None else float(counted[1])


def test_a_failing_stream_says_why_and_stops_no_other(calc: Any, kit: Any) -> None:
    bad, good = (
        kit.stream(8, "SELECT _twstart, count(*) n, 1.0 a FROM power.nowhere"),
        kit.stream(9, kit.QUERY),
    )
    for spec in (bad, good):
        calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    before = {what: _dropped(calc, what) for what in ("stream", "table")}
    calc.fire(bad, kit.closes(bad, kit.own(kit.CHILDREN[0]), [0]))
    calc.fire(good, kit.closes(good, kit.own(kit.CHILDREN[0]), [0]))
    calc.fire(kit.stream(999, kit.QUERY), kit.closes(good, kit.own(kit.CHILDREN[0]), [0]))
    gone = Child("power", "meters", "gone", (1,))
    calc.fire(good, kit.closes(good, kit.own(gone), [0]))
    calc.fire(good, kit.closes(good, kit.own(kit.CHILDREN[1]), [0]))
    kit.eventually(lambda: len(calc.notices("power.s9")) == 2)

    def failures() -> dict[int, str]:
        records = replay(calc.log, topics.STATUS.name)
        # a mark of triggers that waited is deleted once they are calculated
        found = [status.decode(record.value) for record in records if record.value is not None]
        return {one.stream: one.message for one in found if isinstance(one, status.StreamFailure)}

    def measured(what: str) -> bool:
        return _dropped(calc, what) == before[what] + 1

    # the other streams' events lie in other partitions, which may be read later
    kit.eventually(lambda: 8 in failures() and measured("stream") and measured("table"))
    assert set(failures()) == {8}
    assert "nowhere" in failures()[8]


def test_queries_carry_types_and_refuse_clearly(calc: Any, kit: Any) -> None:
    found = calc.query("SELECT ts, amps, site, tbname FROM meters WHERE tbname = 'm4' ORDER BY ts LIMIT 2")
    types = [(field.metadata or {}).get(b"millrace.type") for field in found.schema]
    assert types[:3] == [b"TIMESTAMP", b"FLOAT", b"INT"]
    assert (found.schema.field(0).metadata or {})[b"millrace.precision"] == b"ms"
    assert found.to_pylist()[1] == {"ts": 20_000, "amps": 4.5, "site": 1, "tbname": "m4"}
    asked: dict[str, object] = {"sql": "SELECT nope FROM meters", "db": "power"}
    code, error = calc.refused("/query", asked)
    assert (code, error["code"], error["line"], error["column"]) == (400, "UNKNOWN_COLUMN", 1, 8)
    assert calc.refused("/query", {"query": 1})[0] == 400
    assert calc.ask("/query", asked | {"user": "root"}, "the-token-of-another").status_code == 401
    calc.write(kit.METERS, {"m0": [{"ts": 10**9 + i, "amps": 1.0} for i in range(1001)]})
    topic = wal_topic("power", "meters")
    asked |= {
        "sql": "SELECT * FROM meters WHERE ts >= 1000000000",
        "wal": {topic: calc.log.end_offsets(topic)},
    }
    code, error = calc.refused("/query", asked)
    assert (code, error["code"]) == (413, "TOO_LARGE")


def test_describe_gives_the_result_columns(calc: Any, kit: Any) -> None:
    asked = {"spec": kit.stream(10, kit.QUERY), "catalog": calc.catalog_end}
    code, found = calc.refused("/describe", asked)
    assert code == 200
    assert found == {"columns": [
        {"name": "_twstart", "type": {"name": "TIMESTAMP", "length": None}},
        {"name": "n", "type": {"name": "BIGINT", "length": None}},
        {"name": "a", "type": {"name": "DOUBLE", "length": None}},
    ]}  # fmt: skip


def test_kill_and_restart_lose_and_double_nothing(calc: Any, kit: Any) -> None:
    spec = kit.stream(20, kit.QUERY)
    calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    for minute in range(10):
        calc.fire(
            spec, [e for child in kit.CHILDREN for e in kit.closes(spec, kit.own(child), [minute * MINUTE])]
        )
        if minute in (2, 6):
            calc.kill()
            calc.start()
    ids = {trigger_id(20, child.uid, m * MINUTE) for child in kit.CHILDREN for m in range(10)}
    kit.eventually(lambda: {str(n.event["triggerId"]) for n in calc.notices("power.s20")} == ids)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out20 ORDER BY tag_tbname, w")
    assert rows == expected(kit.CHILDREN, 10)


def test_a_jvm_that_is_killed_gives_no_trigger_up_and_ends_the_process(calc: Any, kit: Any) -> None:
    """Spark's JVM is killed in the middle of calculations, as the kernel does for want of memory."""
    spec = kit.stream(40, kit.QUERY)
    calc.define(kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    (jvm,) = [one for one in psutil.Process(calc.process.pid).children() if one.name() == "java"]
    for minute in range(10):
        calc.fire(
            spec, [e for child in kit.CHILDREN for e in kit.closes(spec, kit.own(child), [minute * MINUTE])]
        )
        if minute == 3:
            jvm.kill()
    assert calc.process.wait(90) != 0
    said = calc.log_file.read_text()
    assert "Spark's process has ended" in said
    assert f'"calculation given up", "stream": "{spec.full_name}"' not in said
    calc.start()
    count = f"SELECT count(*) FROM out{spec.uid}"
    kit.eventually(lambda: calc.rows(count) == [(len(kit.CHILDREN) * 10,)])
    assert calc.rows("SELECT tag_tbname, w, n, a FROM out40 ORDER BY tag_tbname, w") == expected(
        kit.CHILDREN, 10
    )
