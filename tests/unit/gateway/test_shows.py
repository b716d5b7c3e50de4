"""SHOW and DESCRIBE."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.answer import Answer
from millrace_core.errors import ErrorCode, Position


@pytest.fixture
def shop(rig: Any) -> Any:
    rig("CREATE DATABASE e", None)
    rig(
        "CREATE STABLE meters (ts TIMESTAMP, n INT COMPOSITE KEY, s NCHAR(9)) "
        "TAGS (site INT, room VARCHAR(8))"
    )
    rig("CREATE TABLE m_1 USING meters TAGS (1, 'it\\'s') mx1 USING meters (site) TAGS (2)")
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig("CREATE TABLE `One` (ts TIMESTAMP, `V w` BIGINT UNSIGNED)")
    rig("CREATE TABLE e.other (ts TIMESTAMP, v INT)", None)
    return rig


def table(answer: Answer) -> tuple[list[str], list[list[object]]]:
    return [column.name for column in answer.columns], [list(row) for row in answer.rows]


@pytest.mark.parametrize(("sql", "columns", "rows"), [
    ("SHOW DATABASES", ["name"], [["d"], ["e"], ["information_schema"], ["performance_schema"]]),
    ("SHOW STABLES", ["stable_name"], [["meters"]]),
    ("SHOW TABLES", ["table_name"], [["One"], ["m_1"], ["mx1"], ["one"]]),
    ("SHOW e.TABLES", ["table_name"], [["other"]]),
    ("SHOW TABLES LIKE 'm\\_%'", ["table_name"], [["m_1"]]),
    ("SHOW TABLES LIKE 'm__'", ["table_name"], [["m_1"], ["mx1"]]),
    ("SHOW TABLES LIKE 'o%E'", ["table_name"], [["One"], ["one"]]),
    ("SHOW d.STREAMS", ["stream_name", "status", "message"], []),
    ("SHOW USERS", ["name", "super"], [["root", 1]]),
    ("DESCRIBE m_1", ["field", "type", "length", "note"], [
        ["ts", "TIMESTAMP", 8, ""], ["n", "INT", 4, "COMPOSITE KEY"], ["s", "NCHAR", 9, ""],
        ["site", "INT", 4, "TAG"], ["room", "VARCHAR", 8, "TAG"],
    ]),
    ("DESC e.other", ["field", "type", "length", "note"], [["ts", "TIMESTAMP", 8, ""], ["v", "INT", 4, ""]]),
    ("SHOW TAGS FROM mx1", ["table_name", "db_name", "stable_name", "tag_name", "tag_type", "tag_value"], [
        ["mx1", "d", "meters", "site", "INT", "2"], ["mx1", "d", "meters", "room", "VARCHAR(8)", None],
    ]),
])  # fmt: skip
def test_what_is_shown(shop: Any, sql: str, columns: list[str], rows: list[list[object]]) -> None:
    assert table(shop(sql)) == (columns, rows)


def test_what_show_create_gives_makes_the_same_again(shop: Any) -> None:
    catalog = shop.gateway.context.catalog
    names = {
        "e": "DATABASE",
        "meters": "STABLE",
        "m_1": "TABLE",
        "mx1": "TABLE",
        "one": "TABLE",
        "`One`": "TABLE",
    }
    texts = {name: shop(f"SHOW CREATE {what} {name}").rows[0][1] for name, what in names.items()}
    before = {key: (t.kind, t.columns, t.tags) for key, t in catalog.tables.items() if key[0] == "d"}
    tags = {key: child.tags for key, child in catalog.children.items()}
    shop("DROP DATABASE d", None)
    shop("DROP DATABASE e", None)
    shop("CREATE DATABASE d", None)
    for text in texts.values():
        shop(text)
    assert {key: (t.kind, t.columns, t.tags) for key, t in catalog.tables.items()} == before
    assert {key: child.tags for key, child in catalog.children.items()} == tags
    assert "e" in catalog.databases


@pytest.mark.parametrize(("sql", "code", "column"), [
    ("SHOW nowhere.TABLES", ErrorCode.UNKNOWN_DATABASE, 6),
    ("SHOW CLUSTER", ErrorCode.UNSUPPORTED, 6),
    ("DESCRIBE absent", ErrorCode.UNKNOWN_TABLE, 10),
    ("SHOW CREATE STABLE one", ErrorCode.NOT_ALLOWED, 20),
    ("SHOW CREATE STREAM s", ErrorCode.UNKNOWN_STREAM, 20),
    ("SHOW CREATE DATABASE nowhere", ErrorCode.UNKNOWN_DATABASE, 22),
    ("SHOW TAGS FROM one", ErrorCode.NOT_ALLOWED, 16),
])  # fmt: skip
def test_what_is_not_there_is_not_shown(shop: Any, sql: str, code: ErrorCode, column: int) -> None:
    error = shop.refused(sql)
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_a_statement_that_is_none_of_ours_says_what_could_be(shop: Any) -> None:
    error = shop.refused("FROB TABLE one")
    assert (error.code, error.position) == (ErrorCode.SYNTAX, Position(1, 1))
