"""Scalar functions: values of TDengine's documentation, and independent oracles in plain Python."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from millrace_core.plan import plan_query

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC

VALUES: list[tuple[str, Any]] = [
    # numbers
    ("round(8888.88)", 8889.0),
    ("round(8888.88, -1)", 8890.0),
    ("round(2.346, 2)", 2.35),
    ("round(-2.5)", -3.0),
    ("round(12345, -2)", 12300),
    ("round(12350, -2)", 12400),
    ("round(7, 2)", 7),
    ("round(1.5, NULL)", None),
    ("round(-12350, -2)", -12400),
    ("round(9007199254740993, -1)", 9007199254740990),
    ("truncate(8888.88, 0)", 8888.0),
    ("truncate(8888.88, -1)", 8880.0),
    ("trunc(-1.999, 2)", -1.99),
    ("truncate(-12399, -2)", -12300),
    ("truncate(99, -20)", 0),
    ("mod(10, 3)", 1.0),
    ("mod(1, 0)", None),
    ("mod(-7, 4)", -3.0),
    ("sqrt(4)", 2.0),
    ("sqrt(-1)", None),
    ("ln(0)", None),
    ("ln(-1)", None),
    ("ln(1)", 0.0),
    ("log(8, 2)", 3.0),
    ("log(8, 1)", None),
    ("log(-8, 2)", None),
    ("exp(1000)", None),
    ("exp(0)", 1.0),
    ("pow(2, 10)", 1024.0),
    ("pow(0, -1)", None),
    ("power(4, 0.5)", 2.0),
    ("asin(2)", None),
    ("acos(-1.5)", None),
    ("asin(1)", 1.570796),
    ("atan(1)", 0.785398),
    ("degrees(pi())", 180.0),
    ("radians(180)", 3.141593),
    ("sign(-3)", -1),
    ("sign(0)", 0),
    ("abs(-3)", 3),
    ("ceil(1.2)", 2.0),
    ("floor(-1.2)", -2.0),
    ("ceil(7)", 7),
    ("ceil(1e300)", 1e300),
    ("pi()", 3.141593),
    ("greatest(1, 2.5)", 2.5),
    ("greatest(1, NULL)", None),
    ("least(3, 2)", 2),
    ("greatest('a', 5)", "a"),
    # text
    ("concat('a', 'b', 'c')", "abc"),
    ("concat('a', NULL)", None),
    ("concat_ws('-', 'a', 'b', 'c')", "a-b-c"),
    ("concat_ws('-', 'a', NULL)", None),
    ("length('äb')", 3),
    ("char_length('äb')", 2),
    ("lower('Ab')", "ab"),
    ("upper('Ab')", "AB"),
    ("ltrim('  a ')", "a "),
    ("rtrim(' a  ')", " a"),
    ("trim('  a ')", "a"),
    ("trim(leading from '  a ')", "a "),
    ("trim(leading 'b' from 'bba')", "a"),
    ("trim(both 'b' from 'bbabb')", "a"),
    ("trim('ab' from 'abacd')", "acd"),
    ("trim(trailing '.' from 'a..')", "a"),
    ("trim('a' from NULL)", None),
    ("substring('tdengine', 0)", ""),
    ("substring('tdengine', 3)", "engine"),
    ("substring('tdengine', 3, 3)", "eng"),
    ("substring('tdengine', -3, 3)", "ine"),
    ("substring('tdengine', -3, -3)", ""),
    ("substr('abc', -5, 2)", "ab"),
    ("substr(NULL, 0)", None),
    ("substr('tdengine' from 3 for 2)", "en"),
    ("substring_index('www.tdengine.com', '.', 2)", "www.tdengine"),
    ("substring_index('www.tdengine.com', '.', -2)", "tdengine.com"),
    ("substring_index('a', '.', 2)", "a"),
    ("left('abc', 2)", "ab"),
    ("right('abc', 2)", "bc"),
    ("replace('aabbccAABBCC', 'AA', 'DD')", "aabbccDDBBCC"),
    ("replace('a', NULL, 'b')", None),
    ("repeat('abc', 2)", "abcabc"),
    ("repeat('abc', -1)", ""),
    ("position('a' in 'cba')", 3),
    ("position('' in 'cba')", 1),
    ("position('d', 'cba')", 0),
    ("find_in_set('b', 'a,b,c')", 2),
    ("find_in_set('x', 'a,b')", 0),
    ("find_in_set(NULL, 'a')", None),
    ("char(92)", "\\"),
    ("find_in_set('b', 'a;b', ';')", 2),
    ("ascii('testascii')", 116),
    ("ascii('ä')", 195),
    ("ascii('')", 0),
    ("ascii(NULL)", None),
    ("char(77)", "M"),
    ("char(77, NULL, 77)", "MM"),
    ("char(77 * 256 + 77)", "MM"),
    ("char('77')", "M"),
    ("char(195, 164)", "ä"),
    ("to_base64('Hello, world!')", "SGVsbG8sIHdvcmxkIQ=="),
    ("from_base64('SGVsbG8sIHdvcmxkIQ==')", "Hello, world!"),
    ("from_base64(to_base64('äb'))", "äb"),
    ("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
    ("sha1('abc')", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ("sha('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ("sha2('abc', 256)", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("md5(NULL)", None),
    ("""to_json('{"a": 1}')""", '{"a":1}'),
    ("to_json('{}')", None),
    # others
    ("nvl2(NULL, 1, 2)", 2),
    ("nvl2(0, 1, 2)", 1),
    ("nullif(1, 1)", None),
    ("if(1 > 2, 'a', 'b')", "b"),
    ("isnull(NULL)", True),
    ("isnotnull(NULL)", False),
    ("coalesce(NULL, 2)", 2),
    # times
    ("to_unixtimestamp('2026-01-01T00:00:00.000Z')", T0),
    ("to_unixtimestamp('not a time')", None),
    ("to_unixtimestamp('2026-01-01 01:00:00+01:00', 1)", T0),
    ("to_unixtimestamp('2026-02-30')", None),
    ("to_unixtimestamp('2026-01-01 24:00:00')", None),
    ("to_unixtimestamp('2026-01-01 00:00:00.12345')", T0 + 123),
    ("timediff('2022-01-01 08:00:00', '2022-01-01 08:00:01', 1s)", -1),
    ("timediff('x', 5)", None),
    ("timediff('2022-01-01 08:00:00', '2022-01-01 08:00:01', NULL)", -1000),
    ("timetruncate('2026-01-07 13:45:59.123', 1w, 0)", T0),
    ("timetruncate('2026-03-07', 1n)", T0 + 59 * 86_400_000),
    ("timetruncate('2026-03-07', 1y)", T0),
    ("timetruncate('x', 1d)", None),
    ("date('2026-03-07 13:45:59')", "2026-03-07"),
    ("date(NULL)", None),
    ("timestamp '2026-01-01' + 1s", T0 + 1_000),
    ("timestamp '2024-01-31 12:00:00' + 1n - timestamp '2024-02-29 12:00:00'", 0),
    ("timestamp '2024-02-29' - 1y - timestamp '2023-02-28'", 0),
    ("2n + timestamp '2026-01-01'", T0 + 59 * 86_400_000),
    ("0x1F + 0b11", 34.0),
    ("to_iso8601(1767225600000)", "2026-01-01T00:00:00.000+0000"),
    ("to_iso8601(1767225600000, '-0330')", "2025-12-31T20:30:00.000-0330"),
    ("to_iso8601(-1, 'Z')", "1969-12-31T23:59:59.999Z"),
    ("week('2000-01-01', 0)", 0),
    ("week('2000-01-01', 2)", 52),
    ("weekday('2000-01-01')", 5),
    ("weekofyear('2000-01-01')", 52),
    ("dayofweek('2000-01-01')", 7),
    ("week(NULL)", None),
    ("to_char(1697182085123, 'yyyy-mm-dd HH24:MI:SS.ms us ns')", "2023-10-13 07:28:05.123 123000 123000000"),
    ("to_char(1697182085123, 'YYYY-MONTH-DD')", "2023-OCTOBER  -13"),
    (
        "to_char(1697182085123, 'Mon|day|Dy|d|ddd|yyy|yy|y|hh12|p.m.|AM|tzh')",
        "Oct|friday   |Fri|6|286|023|23|3|07|a.m.|AM|+00",
    ),
    ("""to_char(1697182085123, 'yyyy "is yyyy"')""", "2023 is yyyy"),
    ("to_char(NULL, 'yyyy')", None),
    ("to_char(1697182085123, '年')", "年"),
    (
        "to_timestamp('2023-10-10 10:10:10.123.000456.000000789', 'yyyy-mm-dd hh:mi:ss.ms.us.ns')",
        1_696_932_610_123,
    ),
    ("to_timestamp('2023-22-10-10', 'yyyy-yy-MM-dd')", 1_665_360_000_000),
    ("to_timestamp('200101/2', 'yyyyMM1/dd')", 978_393_600_000),
    ("to_timestamp('2026-JANUARY-01', 'YYYY-month-dd')", T0),
    ("to_timestamp('01 Mar 26', 'dd mon yy')", T0 + 59 * 86_400_000),
    ("to_timestamp('2026-01-01', 'yyyy-mm-dd hh24:mi:ss')", T0),
    ("to_timestamp('2026-1-1', 'yyyy-mm-dd')", T0),
    ("to_timestamp('2026-01-01 12:30 am', 'yyyy-mm-dd hh:mi am')", T0 + 1_800_000),
    ("to_timestamp('2026-01-01 1:30 PM', 'yyyy-mm-dd hh:mi am')", T0 + 48_600_000),
    ("to_timestamp('2026-01-01 08 +08', 'yyyy-mm-dd hh24 tzh')", T0),
    ("to_timestamp('x', 'yyyy')", None),
    ("to_timestamp('2026-13-01', 'yyyy-mm-dd')", None),
    ("to_timestamp('13', 'hh')", None),
]


def test_values_of_functions(kit: Any) -> None:
    """All in one query: each is a result column."""
    world = kit.World()
    found = world.query("SELECT " + ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(VALUES)))
    assert dict(zip((text for text, _ in VALUES), found[0], strict=True)) == dict(VALUES)


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "+05:30", "UTC")


def instants(seed: int) -> list[int]:
    """Milliseconds: around changes of the clocks, and anywhere from 1971 to 2037."""
    rng = random.Random(seed)
    changes = [
        datetime(2026, m, d, tzinfo=UTC) for m, d in ((3, 8), (3, 29), (4, 4), (10, 3), (10, 25), (11, 1))
    ]
    near = [
        int(c.timestamp()) * 1_000 + rng.randrange(-86_400_000, 86_400_000) for c in changes for _ in range(3)
    ]
    return sorted({*near, *(rng.randrange(31_536_000_000, 2_114_380_800_000) for _ in range(12))})


@pytest.mark.parametrize("zone", ZONES)
def test_calendars_of_time_zones(kit: Any, zone: str) -> None:
    times = instants(7)
    world = kit.World()
    world.insert("nt", [{"ts": ts, "v": 1, "w": None} for ts in times])
    sql = (
        "SELECT ts, to_iso8601(ts), to_char(ts, 'yyyy-mm-dd hh24:mi:ss.ms'), timetruncate(ts, 1d), "
        "timetruncate(ts, 1n), timetruncate(ts, 1w), dayofweek(ts), "
        "to_unixtimestamp(to_char(ts, 'yyyy-mm-dd hh24:mi:ss.ms')) FROM nt"
    )
    rows = world.query(sql, timezone=zone)
    assert [row[0] for row in rows] == times
    where = ZoneInfo(zone) if "/" in zone or zone == "UTC" else datetime.strptime(zone, "%z").tzinfo
    for row in rows:
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=row[0])).astimezone(where)
        text = local.strftime("%Y-%m-%d %H:%M:%S.") + f"{row[0] % 1000:03d}"
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        days = (midnight.date() - date(1970, 1, 1)).days
        assert row[1] == text.replace(" ", "T") + local.strftime("%z")
        assert row[2] == text
        assert row[3] == ticks(midnight)
        assert row[4] == ticks(midnight.replace(day=1))
        assert row[5] == ticks(midnight.replace(tzinfo=None) - timedelta(days=days % 7), where)
        assert row[6] == local.isoweekday() % 7 + 1
        assert row[7] == ticks(local.replace(fold=0))


def ticks(local: datetime, where: Any = None) -> int:
    """Milliseconds of a wall clock, the earlier of two equal readings."""
    aware = local if where is None else local.replace(tzinfo=where)
    offset = aware.utcoffset()
    assert offset is not None
    return (aware.replace(tzinfo=None) - offset - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


@pytest.mark.parametrize("mode", range(8))
def test_week_numbers(kit: Any, mode: int) -> None:
    """By counting days, not by formulas."""
    first = date(1995, 1, 1)
    dates = [first + timedelta(days=d) for year in range(14) for d in range(365 * year - 9, 365 * year + 12)]
    world = kit.World()
    world.insert(
        "nt",
        [
            {"ts": int(datetime(d.year, d.month, d.day, tzinfo=UTC).timestamp()) * 1_000, "v": 1, "w": None}
            for d in sorted(set(dates))
        ],
    )
    rows = world.query(f"SELECT ts, week(ts, {mode}) FROM nt")
    for ts, week in rows:
        assert week == week_of(date(1970, 1, 1) + timedelta(days=ts // 86_400_000), mode)


def week_of(day: date, mode: int) -> int:
    monday, all_year, four = (
        mode in (1, 3, 5, 7), mode in (2, 3, 6, 7), mode in (1, 3, 4, 6)
    )  # fmt: skip

    def week_one(year: int) -> date:
        start = date(year, 1, 1)
        if four:  # the week with 4 January in it
            start = date(year, 1, 4)
            while start.weekday() != (0 if monday else 6):
                start -= timedelta(days=1)
            return start
        while start.weekday() != (0 if monday else 6):
            start += timedelta(days=1)
        return start

    year = day.year
    if all_year:
        if day < week_one(year):
            year -= 1
        elif four and day >= week_one(year + 1):
            year += 1
    return (day - week_one(year)).days // 7 + 1


def test_finer_precisions_keep_every_digit(kit: Any) -> None:
    world = kit.World()
    ts = 1_782_864_000_123_456
    world.insert("fast", [{"ts": ts, "v": 1}])
    sql = (
        "SELECT to_iso8601(ts), to_char(ts, 'ms us ns'), timetruncate(ts, 1d), timetruncate(ts, 1a), "
        "to_timestamp('2026-07-01 02:00:00.123456789', 'yyyy-mm-dd hh24:mi:ss.ns'), "
        "to_unixtimestamp('2026-07-01 02:00:00.123456789') FROM u.fast"
    )
    midnight = 1_782_856_800_000_000
    assert world.query(sql, timezone="Europe/Berlin") == [
        ("2026-07-01T02:00:00.123456+0200", "123 123456 123456000", midnight, ts - 456, ts, ts)
    ]


def test_texts_in_columns_are_times(kit: Any) -> None:
    world = kit.World()
    texts = ["2026-01-01", "2026-01-01 01:02", "2026-01-01T00Z", "2026-1-2 3:4:5.6", None, "", "today"]
    world.insert("d1", [{"ts": T0 + i, "v": 1, "c0": None, "s": s, "b": None} for i, s in enumerate(texts)])
    found = world.query(
        "SELECT to_unixtimestamp(s), cast(s AS TIMESTAMP), weekday(s) FROM d1", timezone="Asia/Tokyo"
    )
    tokyo = -9 * 3_600_000
    times = [T0 + tokyo, T0 + tokyo + 3_720_000, None, T0 + tokyo + 86_400_000 + 11_045_600, None, None, None]
    days = [3, 3, None, 4, None, None, None]
    assert found == [(time, time, day) for time, day in zip(times, days, strict=True)]


def test_numbers_against_python(kit: Any) -> None:
    """NULLs, negative numbers and large ones; digits as a column."""
    world = kit.World()
    rng = random.Random(3)
    values = [None, 0.0, -0.0, 1e18, -1e18, *(round(rng.uniform(-1e4, 1e4), 3) for _ in range(40))]
    world.insert("nt", [{"ts": T0 + i, "v": i % 5 - 2, "w": w} for i, w in enumerate(values)])
    rows = world.query("SELECT w, v, floor(w), ceil(w), truncate(w, v), sign(w), round(w), sqrt(w) FROM nt")
    assert len(rows) == len(values)
    for w, v, floor, ceil, cut, sign, near, root in rows:
        if w is None:
            assert {floor, ceil, cut, sign, near, root} == {None}
            continue
        assert (floor, ceil) == (w // 1, -(-w // 1))
        assert cut == pytest.approx(int(w * 10**v) / 10**v)
        assert sign == (w > 0) - (w < 0)
        assert abs(near - w) <= 0.5
        assert root == (pytest.approx(w**0.5) if w >= 0 else None)


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("round(v)", "INT"),
        ("truncate(c0, 1)", "FLOAT"),
        ("mod(v, 2)", "DOUBLE"),
        ("week(ts)", "BIGINT"),
        ("to_char(ts, 'yyyy')", "VARCHAR(4)"),
        ("to_timestamp(s, 'yyyy')", "TIMESTAMP"),
        ("to_unixtimestamp(s)", "BIGINT"),
        ("to_unixtimestamp(s, 1)", "TIMESTAMP"),
        ("crc32(v)", "INT UNSIGNED"),
        ("substring_index(s, ',', 1)", "VARCHAR(16)"),
        ("greatest(v, k)", "INT"),
        ("to_json('{}')", "JSON"),
        ("rand()", "DOUBLE"),
        ("rand(7)", "DOUBLE"),
        ("trim(s)", "VARCHAR(16)"),
        ("char(v)", "VARCHAR(24)"),
    ],
)
def test_types_of_results(kit: Any, expression: str, type_: str) -> None:
    plan = plan_query(f"SELECT {expression} FROM meters", "d", kit.make_catalog(), "UTC", 0)
    assert [str(c.type) for c in plan.result] == [type_]


def test_nested_calls_of_replace_do_not_double(kit: Any) -> None:
    """REPLACE by a column stands once in the SQL, at every depth (it was 3^n texts)."""

    def size(depth: int) -> int:
        call = "s"
        for _ in range(depth):
            call = f"replace({call}, s, 'x')"
        sql = f"SELECT {call} AS r FROM meters"
        return len(plan_query(sql, "d", kit.make_catalog(), "UTC", 0).one_sql({}))

    assert size(8) - size(4) == size(4) - size(0)
