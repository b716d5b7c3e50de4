"""What a user may ask, on every surface, of things that are there, are not, or are hidden."""

from __future__ import annotations

from hypothesis import strategies as st
from iotdb.thrift.rpc import ttypes
from tests.unit.gateway.whole import Ask, api, iotdb, rpc, sql
from tests.unit.gateway.worlds import T0

POOLS: dict[str, list[str]] = {
    "db": ["a", "b", "c", "z", "nowhere", "`root.p`", "`root.q`", "information_schema"],
    "t": [
        *(f"{db}.{name}" for db in ("a", "b", "c", "z")
          for name in ("st", "c1", "c9", "nt", "vt", "h1", "out")),
        "a.absent", "nowhere.t", "`root.p`.`root.p.d1`", "`root.p`.`root.p.h1`", "`root.p`.devices", "nt",
    ],
    "mine": ["a.mine", "b.mine", "c.mine", "z.mine", "a.c1", "b.h1"],
    "s": [
        "a.s", "b.s", "c.s", "a.s2", "b.hs", "z.s", "a.absent", "nowhere.s", "g_a", "g_b", "g_z",
        "held_alpha_a", "held_beta_b", "s",
    ],
    "ins": [
        "ins_databases", "ins_stables", "ins_tables", "ins_columns", "ins_tags", "ins_streams",
        "ins_stream_tasks", "ins_stream_recalculates", "ins_stream_counters", "ins_continuous_queries",
        "ins_users", "ins_user_privileges", "ins_snodes",
    ],
    "path": ["root.p.d1", "root.p.h1", "root.p.d9", "root.p", "root.q.d1", "root.q", "root.z.d1"],
    "pattern": [
        "root.**", "root.p.**", "root.p.*", "root.q.**", "root.*.d1", "root.p.d1", "root.q.d1", "root.p.h*",
    ],
    "v": ["1", "NULL", "'x'"],
    "user": ["ann", "bob", "root", "nobody"],
    "cq": ["cq_root", "cq_mine", "cq_absent"],
    "listed": [
        "DATABASES", "USERS", "USER PRIVILEGES", "STREAMS", "SNODES", "DNODES", "ANODES", "TABLES",
        "STABLES",
    ],
    "of": ["TABLES", "STABLES", "VTABLES", "STREAMS"],
    "what": ["TABLE", "STABLE", "VTABLE"],
}  # fmt: skip
"""What stands for a word in braces in a statement."""
SQL = [
    "SELECT * FROM {t} ORDER BY 1, 2",
    "SELECT count(*), sum(v) FROM {t}",
    "SELECT tbname, count(*) FROM {t} PARTITION BY tbname ORDER BY 1",
    "SELECT DISTINCT tbname, site FROM {t} ORDER BY 1",
    "SELECT a1.v FROM {t} a1, {t} b1 WHERE a1.ts = b1.ts ORDER BY 1",
    "SELECT v FROM (SELECT v FROM {t}) ORDER BY 1",
    "SELECT count(*) FROM {t} UNION ALL SELECT count(*) FROM {t}",
    "SELECT x FROM {t}",
    "SELECT alpha FROM {t}",
    "SELECT v FROM {t} WHERE v IN (SELECT v FROM {t}) ORDER BY 1",
    "SELECT * FROM information_schema.{ins}",
    "SELECT count(*) FROM information_schema.{ins}",
    "SELECT database()",
    "SELECT * FROM information_schema.absent",
    "SELECT * FROM performance_schema.perf_queries",
    "INSERT INTO {t} (ts, v) VALUES (1767225700000, {v})",
    "INSERT INTO {t} VALUES (1767225700000, 1, 'u') {t} VALUES (1767225700000, 1, 'u')",
    "INSERT INTO {t} USING {t} TAGS (1) (ts, v) VALUES (1767225700000, {v})",
    "INSERT INTO {mine} USING {t} TAGS ({v}) (ts, v) VALUES (1767225700000, 1)",
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE ts < '2026-01-01 00:00:02'",
    "DELETE FROM {t} WHERE ts > 0 AND tbname IN ('c9')",
    "CREATE TABLE {mine} (ts TIMESTAMP, v INT)",
    "CREATE TABLE IF NOT EXISTS {t} (ts TIMESTAMP, v INT)",
    "CREATE TABLE {mine} USING {t} TAGS (1)",
    "CREATE TABLE {t} USING {t} TAGS (1)",
    "CREATE STABLE {mine} (ts TIMESTAMP, v INT) TAGS (k INT)",
    "CREATE VTABLE {mine} (ts TIMESTAMP, v INT FROM {t}.v)",
    "DROP TABLE {t}",
    "DROP TABLE IF EXISTS {t}, {t}",
    "DROP STABLE {t}",
    "ALTER TABLE {t} ADD COLUMN more INT",
    "ALTER TABLE {t} DROP COLUMN w",
    "ALTER TABLE {t} SET TAG site = 5",
    "ALTER STABLE {t} DROP TAG site",
    "DESCRIBE {t}",
    "SHOW CREATE {what} {t}",
    "SHOW CREATE STREAM {s}",
    "SHOW CREATE DATABASE {db}",
    "SHOW TAGS FROM {t}",
    "SHOW {db}.{of}",
    "SHOW {listed}",
    "SHOW STREAMS LIKE '%s%'",
    "USE {db}",
    "CREATE DATABASE {db}",
    "DROP DATABASE {db}",
    "DROP DATABASE IF EXISTS {db}",
    "CREATE STREAM {mine} COUNT_WINDOW(2) FROM {t} INTO {mine} AS SELECT _twstart AS ts, count(*) AS n "
    "FROM {t} WHERE ts >= _twstart",
    "CREATE STREAM a.mine INTERVAL(10s) SLIDING(10s) FROM {t} PARTITION BY tbname INTO {t} AS SELECT "
    "_twstart AS ts, count(*) AS n FROM %%tbname",
    "CREATE STREAM g_mine INTO {mine} AS SELECT _wstart AS ts, count(*) AS n FROM {t} INTERVAL(10s)",
    "EXPLAIN CREATE STREAM {mine} COUNT_WINDOW(2) FROM {t} INTO {mine} AS SELECT _twstart AS ts, count(*) "
    "AS n FROM {t} WHERE ts >= _twstart",
    "EXPLAIN CREATE STREAM g_mine INTO {mine} AS SELECT _wstart AS ts, count(*) AS n FROM {t} INTERVAL(10s)",
    "DROP STREAM {s}",
    "DROP STREAM IF EXISTS {s}",
    "STOP STREAM {s}",
    "START STREAM {s}",
    "STOP STREAM IF EXISTS {s}",
    "PAUSE STREAM {s}",
    "RESUME STREAM {s}",
    "RECALCULATE STREAM {s} FROM '2026-01-01'",
    "DIAGNOSE STREAM {s}",
    "VERIFY STREAM {s} FROM '2026-01-01' TO '2026-01-02'",
    "ALTER USER {user} PASS 'Another_1'",
    "CREATE USER {user} PASS 'Another_1'",
    "DROP USER {user}",
    "GRANT READ ON {t} TO {user}",
    "CREATE SNODE ON DNODE 1",
    "SELECT * FRM {t}",
]
IOTDB = [
    "SHOW DATABASES",
    "SHOW DATABASES {pattern}",
    "SHOW DEVICES",
    "SHOW DEVICES {pattern}",
    "SHOW TIMESERIES",
    "SHOW TIMESERIES {pattern}.*",
    "COUNT DEVICES {pattern}",
    "COUNT TIMESERIES {pattern}",
    "SELECT v FROM {path}",
    "SELECT * FROM {pattern}",
    "SELECT count(v) FROM {pattern}",
    "SELECT v, w FROM {pattern} ALIGN BY DEVICE",
    "SELECT v FROM {path}, {path} WHERE time > 0",
    "SELECT v FROM {pattern} WHERE w = 'u'",
    "SELECT count(v) INTO {path}(n) FROM {path}",
    "SELECT v INTO root.p.::(more) FROM {pattern} ALIGN BY DEVICE",
    "INSERT INTO {path}(time, v) VALUES (1767225700000, 1)",
    "INSERT INTO {path}(time, v) VALUES (1767225700000, 'x')",
    "INSERT INTO {path}(time, z) VALUES (1767225700000, NULL)",
    "DELETE FROM {path}.v",
    "DELETE FROM {pattern}.* WHERE time < 5",
    "DELETE TIMESERIES {path}.v",
    "DELETE TIMESERIES {pattern}",
    "CREATE TIMESERIES {path}.v WITH DATATYPE=INT32",
    "CREATE TIMESERIES {path}.more WITH DATATYPE=TEXT",
    "CREATE DATABASE {path}",
    "DELETE DATABASE {pattern}",
    "SHOW CQS",
    "DROP CQ {cq}",
    "DIAGNOSE CQ {cq}",
    "VERIFY CQ {cq} FROM 0 TO 5",
    "SHOW TRIGGERS",
    "DROP TRIGGER absent",
    "CREATE CQ {cq} RESAMPLE EVERY 3650d BEGIN SELECT count(v) INTO {path}(n) FROM {path} GROUP BY(3650d) "
    "END",
    "CREATE CQ cq_mine RESAMPLE EVERY 3650d BEGIN SELECT count(v) INTO root.p.mine(n) FROM {pattern} "
    "GROUP BY(3650d) END",
]
READS = ("SHOW", "COUNT", "SELECT", "DIAGNOSE", "VERIFY")


Request = tuple[str, Ask]
"""What a test shows of it, and how it is sent."""


@st.composite
def filled(draw: st.DrawFn, templates: list[str]) -> str:
    text = draw(st.sampled_from(templates))
    for word, pool in POOLS.items():
        while f"{{{word}}}" in text:
            text = text.replace(f"{{{word}}}", draw(st.sampled_from(pool)), 1)
    return text


def of_iotdb(text: str) -> Request:
    door = "query" if text.startswith(READS) and " INTO " not in text else "nonQuery"
    return f"{door}: {text}", iotdb(door, sql=text)


def tablet(device: str) -> Request:
    body = {
        "timestamps": [T0],
        "measurements": ["v"],
        "data_types": ["TEXT"],
        "values": [["x"]],
        "device": device,
    }
    return f"insertTablet {device}", iotdb("insertTablet", **body)


def resource(method: str, tail: str, name: str) -> Request:
    return f"{method} /{name}{tail}", api(method, f"/{name}{tail}")


def created(text: str) -> Request:
    return f"POST {text}", api("POST", json={"sql": text})


def visited(path: str) -> Request:
    """Who asks may be anybody."""
    return f"GET {path}", lambda whole, _: whole.client.get(path)


def by_rpc(text: str) -> Request:
    asked = ttypes.TSExecuteStatementReq(0, text, 1, fetchSize=2)
    return f"rpc {text}", rpc("executeStatementV2", asked)


def series_by_rpc(paths: list[str]) -> Request:
    asked = ttypes.TSCreateMultiTimeseriesReq(0, [f"{path}.v" for path in paths], [1] * len(paths), [], [])
    return f"rpc create {paths}", rpc("createMultiTimeseries", asked)


def last_by_rpc(path: str) -> Request:
    asked = ttypes.TSLastDataQueryReq(0, [f"{path}.v"], 10, 0, 1)
    return f"rpc last {path}", rpc("executeLastDataQueryV2", asked)


def listed(db: str) -> Request:
    return f"GET ?db={db}", api("GET", params={"db": db} if db else {})


OPEN = ["/metrics", "/healthz", "/rest/login/bob/guess", "/rest/login/nobody/guess"]
_named = st.sampled_from(POOLS["s"])
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    filled(SQL).map(lambda text: (text, sql(text))),
    filled(SQL).map(lambda text: (text, sql(text))),
    st.tuples(filled(SQL), st.sampled_from(["a", "b", "z", "nowhere", "root.p"])).map(
        lambda found: (f"{found[1]}: {found[0]}", sql(*found))
    ),
    filled(IOTDB).map(of_iotdb),
    filled(IOTDB).map(lambda text: (f"iotdb: {text}", sql(text, dialect="iotdb"))),
    st.sampled_from(POOLS["path"]).map(tablet),
    filled(IOTDB).map(by_rpc),
    st.lists(st.sampled_from(POOLS["path"]), min_size=1, max_size=2).map(series_by_rpc),
    st.sampled_from(POOLS["path"]).map(last_by_rpc),
    st.builds(resource, st.just("GET"), st.sampled_from(["", "/subscription"]), _named),
    st.builds(resource, st.just("POST"), st.sampled_from(["/start", "/stop"]), _named),
    st.builds(resource, st.just("DELETE"), st.just(""), _named),
    st.sampled_from(OPEN).map(visited),
    filled([text for text in SQL if text.startswith("CREATE STREAM")]).map(created),
    st.sampled_from(["", *POOLS["db"]]).map(listed),
)  # fmt: skip
