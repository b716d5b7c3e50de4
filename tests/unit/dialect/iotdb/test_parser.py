"""IoTDB's statements: those of the seed, those of the cases, and what is refused, with code and place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.dialect.iotdb import IotdbError, Status, parse
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.expressions import Binary, Call, Constant, SeriesRef, TimeColumn, walk
from millrace_core.dialect.iotdb.paths import Node
from millrace_core.dialect.iotdb.times import Moment, TimeContext, resolve

NOW = TimeContext(1_767_225_600_000_000_000)

TRIGGER = """CREATE STATELESS TRIGGER triggerTest
BEFORE INSERT
ON root.sg.**
AS 'org.apache.iotdb.trigger:ClusterAlertingExample'
USING URI 'examples/alerting.py'
WITH (
    "name" = "trigger",
    "limit" = "100"
)"""
INTO = (
    "root.ln.wf02.wt02(temperature_max), root.ln.wf02.wt01(temperature_max), "
    "root.ln.wf01.wt02(temperature_max), root.ln.wf01.wt01(temperature_max)"
)
MAX = f"BEGIN SELECT max_value(temperature) INTO {INTO} FROM root.ln.*.* GROUP BY(10s)"
CQS = {
    "cq1": f"CREATE CONTINUOUS QUERY cq1 RESAMPLE EVERY 20s {MAX} END",
    "cq2": f"CREATE CONTINUOUS QUERY cq2 RESAMPLE RANGE 40s {MAX} END",
    "cq3": f"CREATE CONTINUOUS QUERY cq3 RESAMPLE EVERY 20s RANGE 40s {MAX} FILL(100.0) END",
    "cq4": f"CREATE CONTINUOUS QUERY cq4 RESAMPLE EVERY 20s RANGE 40s, 20s {MAX} FILL(100.0) END",
    "cq5": "CREATE CONTINUOUS QUERY cq5 RESAMPLE EVERY 20s BEGIN SELECT temperature + 1 "
    "INTO root.precalculated_sg.::(temperature) FROM root.ln.*.* align by device END",
    "s1_count_cq": "CREATE CQ s1_count_cq BEGIN SELECT count(s1) INTO root.sg_count.d.count_s1 "
    "FROM root.sg.d GROUP BY(30m) END",
}


def one(text: str, kind: type) -> Any:
    found = parse(text)
    assert isinstance(found, kind)
    return found


# -- the seed's statements -----------------------------------------------------------------------------------


def test_the_trigger_of_the_seed() -> None:
    made = one(TRIGGER, s.CreateTrigger)
    assert (made.name, made.stateful, made.before) == ("triggerTest", False, True)
    assert (str(made.pattern), made.uri) == ("root.sg.**", "examples/alerting.py")
    assert made.attributes == (("name", "trigger"), ("limit", "100"))
    assert one("DROP TRIGGER triggerTest1", s.DropTrigger).name == "triggerTest1"
    assert one("SHOW TRIGGERS", s.ShowTriggers)


@pytest.mark.parametrize(
    ("name", "every", "start", "end"),
    [
        ("cq1", 20, 20, 0), ("cq2", 10, 40, 0), ("cq3", 20, 40, 0), ("cq4", 20, 40, 20), ("cq5", 20, 20, 0),
        ("s1_count_cq", 1800, 1800, 0),
    ],
)  # fmt: skip
def test_the_continuous_queries_of_the_seed(name: str, every: int, start: int, end: int) -> None:
    made = one(CQS[name], s.CreateCq)
    assert made.name == name
    assert (made.every, made.start, made.end) == (every * 1000, start * 1000, end * 1000)
    assert (made.boundary, made.discard, made.text) == (0, False, CQS[name])


def test_what_the_seed_s_continuous_queries_select() -> None:
    cq4, cq5 = one(CQS["cq4"], s.CreateCq).select, one(CQS["cq5"], s.CreateCq).select
    assert cq4.group.interval == cq4.group.step == 10_000
    assert cq4.fill.mode == "value" and cq4.fill.value.value == 100.0
    assert [str(target.path) for target in cq4.into][:2] == ["root.ln.wf02.wt02", "root.ln.wf02.wt01"]
    assert cq5.by_device and cq5.group is None
    assert isinstance(cq5.items[0].expression, Binary)
    target = one(CQS["s1_count_cq"], s.CreateCq).select.into[0]
    assert (str(target.path), target.measurements) == ("root.sg_count.d.count_s1", None)


def test_managing_continuous_queries_as_the_seed_does() -> None:
    assert one("SHOW CONTINUOUS QUERIES;", s.ShowCqs)
    assert one("SHOW CQS", s.ShowCqs)
    assert one("DROP CONTINUOUS QUERY s1_count_cq;", s.DropCq).name == "s1_count_cq"
    assert one("drop cq s1_count_cq", s.DropCq).name == "s1_count_cq"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT temperature_max from root.ln.*.*;",
        "SELECT temperature from root.precalculated_sg.*.* align by device;",
        "SELECT avg(count_s1) from root.sg_count.d;",
    ],
)
def test_the_queries_of_the_seed(text: str) -> None:
    assert one(text, s.Select).sources


def test_a_nested_query_is_refused_as_the_seed_says() -> None:
    with pytest.raises(IotdbError) as caught:
        parse("SELECT avg(n) from (select count(s1) as n from root.sg.d group by([0, now()), 30m));")
    assert caught.value.status is Status.SQL_PARSE_ERROR
    assert "continuous query" in caught.value.message


def test_the_insert_of_the_seed() -> None:
    made = one("insert into root.sg(time, a, b) values (1, 1, 1);", s.Insert)
    assert (str(made.device), made.measurements) == ("root.sg", ("a", "b"))
    assert made.rows[0].time == 1
    assert [cell.value for cell in made.rows[0].values] == [1, 1]


# -- the other statements ------------------------------------------------------------------------------------


def test_series_of_both_kinds() -> None:
    plain = one("CREATE TIMESERIES root.p.d1.v WITH DATATYPE=INT32, ENCODING=RLE, COMPRESSOR=SNAPPY",
                s.CreateTimeseries)  # fmt: skip
    assert (str(plain.device), plain.series[0].measurement, plain.series[0].type) == (
        "root.p.d1",
        "v",
        "INT32",
    )
    assert one("CREATE TIMESERIES root.p.d1.v double", s.CreateTimeseries).series[0].type == "DOUBLE"
    text = "CREATE ALIGNED TIMESERIES root.p.gps(lat DOUBLE encoding=GORILLA compressor=SNAPPY, lon FLOAT)"
    aligned = one(text, s.CreateTimeseries)
    assert aligned.aligned and [(x.measurement, x.type) for x in aligned.series] == [
        ("lat", "DOUBLE"), ("lon", "FLOAT"),
    ]  # fmt: skip


def test_times_of_an_insert() -> None:
    made = one(
        "INSERT INTO root.p.d1(timestamp, v, t, b, n) ALIGNED VALUES "
        "(2026-01-01T00:00:01.500+00:00, -1.5, 'it''s', true, null), (now() - 16500ms, 1, \"x\", false, 2), "
        "(2026-01-01 08:00:00, +1e3, 'y', TRUE, NULL), (-5, 0, '', true, 1)",
        s.Insert,
    )
    assert made.aligned
    base = 1_767_225_600_000
    assert [resolve(row.time, NOW) for row in made.rows] == [
        base + 1500, base - 16_500, base + 8 * 3_600_000, -5,
    ]  # fmt: skip
    assert [cell.value for cell in made.rows[0].values] == [-1.5, "it's", True, None]
    assert resolve(made.rows[2].time, TimeContext(0, "+08:00")) == base
    assert one("INSERT INTO root.p.d1(v) VALUES (7)", s.Insert).rows[0].time is None


def test_delete_with_times() -> None:
    made = one("DELETE FROM root.p.d1.v, root.p.d2.* WHERE time >= 5 AND time < now() - 1d12h", s.Delete)
    assert [str(p) for p in made.patterns] == ["root.p.d1.v", "root.p.d2.*"]
    assert isinstance(made.where, Binary) and made.where.operator == "and"
    moments = [node.value for node in walk(made.where) if isinstance(node, Constant)]
    assert moments[0] == 5
    assert isinstance(moments[1], Moment) and moments[1].offset == -36 * 3_600_000


def test_a_select_with_every_clause() -> None:
    made = one(
        "SELECT count(v) AS n, a.b.v * 2, s*, ** FROM root.p.*, root.q.d1 "
        "WHERE time > 5 AND NOT (v = 3 OR t LIKE 'x%') AND v BETWEEN 1 AND 5 AND t IN ('a', 'b') "
        "AND v IS NOT NULL GROUP BY ([0, 100), 10ms, 5ms), LEVEL = 1, 2 HAVING count(v) > 1 "
        "FILL(PREVIOUS) ORDER BY TIME DESC LIMIT 10 OFFSET 3 ALIGN BY DEVICE",
        s.Select,
    )
    assert [item.alias for item in made.items] == ["n", None, None, None]
    assert isinstance(made.items[0].expression, Call)
    product = made.items[1].expression
    assert isinstance(product, Binary) and product.operator == "*"
    assert [str(x.expression.path) for x in made.items[2:] if isinstance(x.expression, SeriesRef)] == [
        "s*",
        "**",
    ]
    assert made.group == s.GroupBy(made.group.position, 0, 100, 10, 5, (1, 2))
    assert (made.descending, made.limit, made.offset, made.by_device) == (True, 10, 3, True)
    assert any(isinstance(node, TimeColumn) for node in walk(made.where))


@pytest.mark.parametrize("text", ["s1*2", "s1 * 2", "s1*(2)", "s1*s2", "`s1`*2"])
def test_a_star_between_operands_is_a_product(text: str) -> None:
    found = one(f"SELECT {text} FROM root.a.b", s.Select).items[0].expression
    assert isinstance(found, Binary) and found.operator == "*"


def test_last_is_a_word_or_a_series() -> None:
    for text in ("LAST v", "last *", "last `v`, w", "LAST **", "last *.v", "LAST lasting"):
        assert one(f"SELECT {text} FROM root.a", s.Select).last, text
    for text in ("last", "last AS x", "last, v", "last * 2", "last + v", "lasting", "last.v"):
        assert not one(f"SELECT {text} FROM root.a", s.Select).last, text
    assert not one("SELECT last INTO root.a.b(c) FROM root.a", s.Select).last


def test_nodes_are_of_ascii_s_letters_and_of_all_that_is_not_ascii() -> None:
    made = one("SELECT `a b`, 温度, t°, €* FROM root.工厂.d№1 WHERE t° > 1", s.Select)
    assert [str(x.expression.path) for x in made.items] == ["`a b`", "温度", "t°", "€*"]
    assert made.sources[0].names == ("root", "工厂", "d№1")
    assert one("INSERT INTO root.p.d™(time, µ, ½) VALUES (1, 2, 3)", s.Insert).measurements == ("µ", "½")
    assert str(one("SELECT v INTO root.a.°${1}(::) FROM root.p", s.Select).into[0].path) == "root.a.`°${1}`"


def test_levels_inside_the_parentheses() -> None:
    inside = one("SELECT count(v) FROM root.** GROUP BY ([0, 9), 3ms, level = 1)", s.Select)
    alone = one("SELECT count(v) FROM root.** GROUP BY LEVEL = 1", s.Select)
    assert inside.group.levels == alone.group.levels == (1,)
    assert alone.group.interval is None


def test_placeholders_of_into() -> None:
    made = one(
        "SELECT s1, s2 INTO root.agg_${2}.::(::, back_${3}), ALIGNED root.x.`odd name`(a, b) "
        "FROM root.p.* ALIGN BY DEVICE",
        s.Select,
    )
    first, second = made.into
    assert [node.text for node in first.path.nodes] == ["root", "agg_${2}", "::"]
    assert first.measurements == (Node("::"), Node("back_${3}"))
    assert second.aligned and second.path.nodes[2].text == "odd name"


# -- refusals ------------------------------------------------------------------------------------------------

TAIL = "ON root.a.b AS 'm:C'"
CQ = "SELECT count(v) INTO root.agg.x(n) FROM root.d1"
REFUSED: list[tuple[str, Status, str]] = [
    # triggers
    (f"CREATE TRIGGER t AFTER INSERT {TAIL}", Status.SQL_PARSE_ERROR, "STATELESS or STATEFUL"),
    (f"CREATE STATELESS TRIGGER t AFTER DELETE {TAIL}", Status.SQL_PARSE_ERROR, "DELETE"),
    (f"CREATE STATELESS TRIGGER t AFTER UPDATE {TAIL}", Status.SQL_PARSE_ERROR, "expected INSERT"),
    (f"CREATE STATELESS TRIGGER t DURING INSERT {TAIL}", Status.SQL_PARSE_ERROR, "BEFORE or AFTER"),
    ("CREATE STATELESS TRIGGER t AFTER INSERT ON a.b AS 'm:C'", Status.ILLEGAL_PATH, "must begin with root"),
    ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.a AS 'org.C'",
     Status.CREATE_TRIGGER_ERROR, "not the name of a class"),
    ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.a AS 'm:C;os'",
     Status.CREATE_TRIGGER_ERROR, "not the name of a class"),
    (f'CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} WITH ("a"="1", "a"="2")', Status.CREATE_TRIGGER_ERROR,
     "given twice"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} WITH (a = 1)", Status.SQL_PARSE_ERROR, "in quotes"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI ''", Status.CREATE_TRIGGER_ERROR, "empty"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI 'http://jar/x.py'",
     Status.CREATE_TRIGGER_ERROR, "sha256"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI 'file:///etc/x.py'",
     Status.CREATE_TRIGGER_ERROR, "sha256"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI '/etc/x.py'",
     Status.CREATE_TRIGGER_ERROR, "not in the trigger folder"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI 'a/../../x.py'",
     Status.CREATE_TRIGGER_ERROR, "not in the trigger folder"),
    (f"CREATE STATELESS TRIGGER t AFTER INSERT {TAIL} USING URI 'http://x' WITH (\"sha256\"=\"12\")",
     Status.CREATE_TRIGGER_ERROR, "64 hexadecimal"),
    ("START TRIGGER t", Status.SQL_PARSE_ERROR, "no START"),
    ("STOP TRIGGER t", Status.SQL_PARSE_ERROR, "no START or STOP"),
    # continuous queries
    (f"CREATE CQ c BEGIN {CQ} END", Status.SEMANTIC_ERROR, "RESAMPLE EVERY"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY([0, 10), 30m) END", Status.SEMANTIC_ERROR, "cannot have a time range"),
    (f"CREATE CQ c BEGIN {CQ} WHERE time > 0 GROUP BY(30m) END",
     Status.SEMANTIC_ERROR, "cannot have a condition on time"),
    (f"CREATE CQ c BEGIN {CQ} WHERE v > 1 OR NOT (time > 0) GROUP BY(30m) END", Status.SEMANTIC_ERROR,
     "cannot have a condition on time"),
    (f"CREATE CQ c BEGIN {CQ} WHERE v > 1 AND timestamp > 0 GROUP BY(30m) END", Status.SEMANTIC_ERROR,
     "cannot have a condition on time"),
    ("CREATE CQ c BEGIN SELECT count(v) FROM root.d1 GROUP BY(30m) END", Status.SEMANTIC_ERROR, "needs INTO"),
    (f"CREATE CQ c RESAMPLE EVERY 0s BEGIN {CQ} GROUP BY(30m) END", Status.SEMANTIC_ERROR, "greater than 0"),
    (f"CREATE CQ c RESAMPLE RANGE 0s BEGIN {CQ} GROUP BY(30m) END", Status.SEMANTIC_ERROR, "greater than 0"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY(0s) END", Status.SEMANTIC_ERROR, "greater than 0"),
    (f"CREATE CQ c RESAMPLE RANGE 30m, 30m BEGIN {CQ} GROUP BY(30m) END",
     Status.SEMANTIC_ERROR, "start before it ends"),
    (f"CREATE CQ c RESAMPLE RANGE 30m BEGIN {CQ} GROUP BY(1h) END", Status.SEMANTIC_ERROR, "longer than"),
    (f"CREATE CQ c RESAMPLE BEGIN {CQ} GROUP BY(1h) END", Status.SQL_PARSE_ERROR, "EVERY, BOUNDARY or RANGE"),
    (f"CREATE CQ c TIMEOUT POLICY WAIT BEGIN {CQ} GROUP BY(1h) END",
     Status.SQL_PARSE_ERROR, "BLOCKED or DISCARD"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY(30m)", Status.SQL_PARSE_ERROR, "expected END"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY(30m) SLIMIT 1 END", Status.UNSUPPORTED_OPERATION, "SLIMIT"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY(30m) DISABLE ALIGN END",
     Status.UNSUPPORTED_STATEMENT, "DISABLE ALIGN"),
    ("CREATE CQ c RESAMPLE EVERY 1h BEGIN SELECT LAST v INTO root.agg.x(n) FROM root.d1 END",
     Status.UNSUPPORTED_OPERATION, "LAST"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY TAGS(x) END", Status.UNSUPPORTED_OPERATION, "GROUP BY TAGS"),
    (f"CREATE CQ c BEGIN {CQ} GROUP BY SESSION(1m) END", Status.UNSUPPORTED_OPERATION, "GROUP BY SESSION"),
    ("ALTER CQ c RESAMPLE EVERY 1s", Status.SQL_PARSE_ERROR, "drop it"),
    # schema and rows
    ("CREATE DATABASE root", Status.ILLEGAL_PATH, "not a database"),
    ("CREATE DATABASE plant", Status.ILLEGAL_PATH, "must begin with root"),
    ("CREATE DATABASE root.*", Status.ILLEGAL_PATH, "wildcard"),
    ("CREATE TIMESERIES root.v INT32", Status.ILLEGAL_PATH, "needs a device"),
    ("CREATE TIMESERIES root.p.d.v INT", Status.SQL_PARSE_ERROR, "unknown data type INT"),
    ("INSERT INTO root.p.d(time, v) VALUES (1, X'0g')", Status.SQL_PARSE_ERROR, "hexadecimal"),
    ("CREATE ALIGNED TIMESERIES root.p.d(a INT32, a FLOAT)", Status.SEMANTIC_ERROR, "given twice"),
    ("INSERT INTO root.p.d(time, v) VALUES (1, 2, 3)", Status.SQL_PARSE_ERROR, "2 values, but 1"),
    ("INSERT INTO root.p.d(time) VALUES (1)", Status.SQL_PARSE_ERROR, "besides the time"),
    ("INSERT INTO root.p.d(v, time) VALUES (1, 2)", Status.SEMANTIC_ERROR, "first column"),
    ("INSERT INTO root.p.d(v, v) VALUES (1, 2)", Status.SEMANTIC_ERROR, "given twice"),
    ("INSERT INTO root.p.d(v) VALUES (1), (2)", Status.SEMANTIC_ERROR, "only a single row"),
    ("INSERT INTO root.p.*(time, v) VALUES (1, 2)", Status.ILLEGAL_PATH, "wildcard"),
    ("SELECT v FROM root.a GROUP BY([0, 5), 1mo)", Status.UNSUPPORTED_OPERATION, "months"),
    ("SELECT v FROM root.a GROUP BY([0, 5), 1us)", Status.SEMANTIC_ERROR, "milliseconds"),
    ("SELECT v FROM root.a LIMIT 1 LIMIT 2", Status.SQL_PARSE_ERROR, "given twice"),
    ("SELECT v FROM root.a ORDER BY TIMESERIES", Status.UNSUPPORTED_OPERATION, "only with SELECT LAST"),
    ("SELECT v FROM root.a DISABLE ALIGN", Status.UNSUPPORTED_STATEMENT, "DISABLE ALIGN"),
    ("SELECT v FROM a", Status.ILLEGAL_PATH, "must begin with root"),
    ("SELECT 'x FROM root.a", Status.SQL_PARSE_ERROR, "unterminated string"),
    ("SELECT v FROM root.a WHERE v > 1e400", Status.SEMANTIC_ERROR, "out of range"),
    ("SELECT v * 1" + "0" * 400 + " FROM root.a", Status.SEMANTIC_ERROR, "out of range"),
    ("SELECT v FROM root.a LIMIT " + "9" * 5000, Status.SQL_PARSE_ERROR, "too large"),
    ("SELECT v FROM root.a WHERE v > " + "9" * 5000, Status.SEMANTIC_ERROR, "out of range"),
    ("SELECT v FROM root.a GROUP BY([0, 9), " + "9" * 5000 + "s)", Status.SEMANTIC_ERROR, "too long"),
    ("SHOW DEVICES root.**.a.**.b.**.c.**", Status.ILLEGAL_PATH, "at most 3 are allowed"),
    ("DELETE FROM root.a.a*a*a*a*b", Status.ILLEGAL_PATH, "at most 3 *"),
    ("SELECT 1d FROM root.a", Status.SQL_PARSE_ERROR, "backquotes"),
    ("SELECT v FROM root.a WHERE", Status.SQL_PARSE_ERROR, "an expression"),
    ("SELECT v FROM root.a; SELECT w FROM root.a", Status.SQL_PARSE_ERROR, "the end"),
    ("SHOW TRIGGER", Status.UNSUPPORTED_OPERATION, "DATABASES, DEVICES, TIMESERIES, TRIGGERS and CQS"),
    ("GRANT ALL", Status.UNSUPPORTED_OPERATION, "GRANT"),
    ("hello", Status.SQL_PARSE_ERROR, "a statement"),
    ("", Status.SQL_PARSE_ERROR, "a statement"),
    ("SELECT v" + " + v" * 1_500 + " FROM root.a", Status.SQL_PARSE_ERROR, "operators"),
    ("SELECT " + "(" * 500 + "v" + ")" * 500 + " FROM root.a", Status.SQL_PARSE_ERROR, "nested more than"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "status", "words"), REFUSED)
def test_what_is_refused_says_why_and_where(text: str, status: Status, words: str) -> None:
    with pytest.raises(IotdbError) as caught:
        parse(text)
    assert caught.value.status is status
    assert words in caught.value.message
    assert caught.value.position is not None


def test_places_are_those_of_the_text() -> None:
    with pytest.raises(IotdbError) as caught:
        parse("SELECT v\n  FROM root.a\n  WHERE v > ")
    assert (caught.value.position.line, caught.value.position.column) == (3, 13)


TEXTS = [*CQS.values(), TRIGGER, *(text for text, _, _ in REFUSED)]


PUT = ["", " ", "(", ")", "'", "`", "*", "**", ".", "::", "${1}", "10s", "é", "\0", "-"]


@given(st.sampled_from(TEXTS), st.data())
def test_no_text_breaks_the_parser(text: str, data: st.DataObject) -> None:
    """Whatever is cut out of a statement, or put into it, is a statement or an error with a status."""
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 12)))
    put = data.draw(
        st.sampled_from(["", " ", "(", ")", "'", "`", "*", "**", ".", "::", "${1}", "10s", "é", "\0", "-"])
    )
    try:
        parse(text[:begin] + put + text[end:])
    except IotdbError as error:
        assert error.position is not None
